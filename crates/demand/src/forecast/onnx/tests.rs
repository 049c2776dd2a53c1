//! Tests of the pretrained model on the embedded engine, and of the faults of faulty files.

use chrono::DateTime;
use embedder::Demand;
use prost::Message as _;

use super::covariate::Covariate;
use super::*;
use crate::forecast::sample::{self, tick};
use crate::record::{BucketTick, Tick};

/// Learns a demand that rises by 5 once an hour in the first bucket. The other buckets are not in
/// use.
fn learnt(source: ModelSource, catalog: &Catalog, tick_seconds: i64) -> (Onnx, Outlook) {
    let lead = Lead { seconds: 370, tick_seconds };
    let (mut onnx, mut history) =
        (Onnx::new(source, catalog, lead), History::new(&sample::catalog()));
    for at in 0..600 {
        let time = DateTime::from_timestamp(1_700_000_000 + at * tick_seconds, 0).unwrap();
        let demand = if at % 60 < 20 { 15 } else { 10 };
        let mut buckets = vec![BucketTick::default(); catalog.len()];
        buckets[0] = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
        history.record(Tick { time, ..tick(0, buckets) });
        onnx.learn(&history);
    }
    let now = history.last().unwrap().time;
    let outlook = onnx.forecast(&history, &Present::at_tick(now, &Demand::default()));
    (onnx, outlook)
}

/// Loading checks the golden output.
#[test]
fn the_pretrained_model_keeps_the_contract_on_the_embedded_engine() {
    let model = ModelSource::Pretrained.load().map_err(|faults| format!("{faults:?}")).unwrap();
    assert!(model.spec().buckets.is_none());
}

#[test]
fn only_buckets_in_use_have_a_forecast() {
    let catalog = testkit::catalog([("a", 8_000, 0.0), ("b", 8_000, 0.0)]);
    let (onnx, outlook) = learnt(ModelSource::Pretrained, &catalog, 60);
    assert_eq!(onnx.faults(), []);
    let [used, unused] = &outlook.buckets[..] else { panic!("two buckets") };
    assert_eq!((used.reason, unused.reason), (Reason::Forecast, Reason::TooLittleHistory));
    assert!(used.new_nodes.quantile(0.99) >= used.new_nodes.quantile(0.5));
    assert!((1..50).contains(&used.new_nodes.most()), "{:?}", used.new_nodes);
    assert_eq!(unused.new_nodes.most(), 0);
}

#[test]
fn the_same_history_gives_the_same_outlook() {
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let outlook = || learnt(ModelSource::Pretrained, &catalog, 60).1;
    assert_eq!(outlook(), outlook());
}

/// Learns `ticks` ticks, with a demand that changes at most of them. The second bucket is in use
/// from the middle on. Returns the pending forecast of each tick, computed at the tick or, if
/// `late`, not computed.
fn requested(source: ModelSource, ticks: u64, late: bool) -> (Onnx, Vec<Arc<Pending>>) {
    let catalog = testkit::catalog([("a", 8_000, 0.0), ("b", 8_000, 0.0)]);
    let mut onnx = Onnx::patient(source, &catalog, Lead { seconds: 370, tick_seconds: 60 });
    let mut history = History::new(&catalog);
    let mut pending = Vec::new();
    for (minute, at) in (0..).zip(0..ticks) {
        let bucket = |demand| {
            let demand_max = if demand > 0 { demand + at % 3 } else { 0 };
            BucketTick { demand, demand_max, ..BucketTick::default() }
        };
        let second = if at < ticks / 2 { 0 } else { 2 + at % 4 };
        history.record(tick(minute, vec![bucket(5 + at % 7 / 2), bucket(second)]));
        onnx.learn(&history);
        pending.push(onnx.request(&history));
        if !late {
            onnx.compute(pending.last().into_iter());
        }
    }
    (onnx, pending)
}

/// Returns some quantiles of [`requested`] by tick and bucket, where late forecasts are computed at
/// the end. Chances differ by rounding between one row and several.
fn quantiles(source: ModelSource, ticks: u64, late: bool) -> Vec<[[u64; 4]; 2]> {
    let (onnx, pending) = requested(source, ticks, late);
    onnx.compute(pending.iter());
    let of_bucket = |bucket: &BucketOutlook| {
        [0.5, 0.75, 0.9, 0.99].map(|quantile| bucket.new_nodes.quantile(quantile))
    };
    let of_tick = |pending: &Arc<Pending>| {
        let outlook = onnx.outlook(pending);
        [0, 1].map(|id: usize| of_bucket(&outlook.buckets[id]))
    };
    pending.iter().map(of_tick).collect()
}

#[test]
fn one_run_for_several_ticks_gives_the_forecast_of_each() {
    let late = quantiles(ModelSource::Pretrained, 90, true);
    assert_eq!(late, quantiles(ModelSource::Pretrained, 90, false));
    let changes =
        |bucket: usize| late.windows(2).filter(|two| two[0][bucket] != two[1][bucket]).count();
    assert!(changes(0) > 30 && changes(1) > 15, "{} {}", changes(0), changes(1));
}

/// Of the 150 ticks, the last 75 have two buckets. A run has at most as many values of demand as 32
/// rows of one bucket have, and a tick at which nothing changes has no row.
#[test]
fn a_run_has_the_same_buckets_in_all_rows_and_a_bound() {
    let (_, pending) = requested(ModelSource::Pretrained, 150, true);
    let runs = pending::by_run(pending.iter());
    let shape = |rows: &Vec<(&Pending, &RunInput)>| {
        let buckets = &rows[0].1.buckets;
        assert!(rows.iter().all(|(_, run)| run.buckets == *buckets));
        (buckets.len(), rows.len())
    };
    let shapes: Vec<(usize, usize)> = runs.iter().map(shape).collect();
    assert_eq!(shapes, [(1, 32), (1, 11), (2, 16), (2, 16), (2, 16), (2, 16), (2, 11)]);
    let rows: usize = runs.iter().map(Vec::len).sum();
    let changes = pending.windows(2).filter(|two| !Arc::ptr_eq(&two[0], &two[1])).count();
    assert_eq!((rows, changes), (118, 117));
}

/// The dimension `batch` of the file becomes 1, with as many bytes.
#[test]
fn a_model_whose_batch_is_fixed_runs_for_each_tick() {
    let (named, one) = (b"\x12\x05batch", b"\x08\x81\x80\x80\x80\x80\x00");
    let mut fixed = PRETRAINED.to_vec();
    for at in 0..fixed.len() - named.len() {
        if fixed[at..].starts_with(named) {
            fixed[at..at + one.len()].copy_from_slice(one);
        }
    }
    assert!(contract::read(PRETRAINED).unwrap().takes_rows);
    assert!(!contract::read(&fixed).unwrap().takes_rows);
    let slot = ModelSlot::default();
    slot.put(Ok(fixed.into()));
    let of_fixed = quantiles(ModelSource::Slot(slot), 20, true);
    assert_eq!(of_fixed, quantiles(ModelSource::Pretrained, 20, false));
}

/// The demand of the second row is infinite, and so is the output of the model.
#[test]
fn a_row_without_a_valid_output_is_a_fault_of_its_own() {
    let announced = ModelSlot::default();
    announced.put(Ok(ANNOUNCED.into()));
    let mut model = ModelSource::Slot(announced).load().map_err(|_| "a fault").unwrap();
    let Golden { buckets, target, time, state, future, .. } = model.spec().golden.clone();
    let known = |values: Vec<Option<f32>>| values.into_iter().map(Option::unwrap_or_default);
    let (target, state) = (known(target).collect(), known(state).collect());
    let valid = ModelInput { batch: 1, buckets, target, time, state, future };
    let target = vec![f32::INFINITY; valid.target.len()];
    let invalid = ModelInput { target, ..valid.clone() };
    let outputs = model.run_rows(&[&valid, &invalid, &valid], Wanted::All);
    let [one, fault, other] = &outputs[..] else { panic!("three outputs") };
    assert_eq!((one.is_ok(), one == other), (true, true));
    let fault = fault.as_ref().unwrap_err().to_string();
    assert_eq!(fault, "outputs.quantiles: NaN or infinite");
}

/// A file that changed between the request and the run has another spec, perhaps other shapes.
#[test]
fn a_forecast_that_was_requested_of_another_model_is_a_fault() {
    let slot = ModelSlot::default();
    slot.put(Ok(PRETRAINED.into()));
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let lead = Lead { seconds: 120, tick_seconds: 60 };
    let mut onnx = Onnx::new(ModelSource::Slot(slot.clone()), &catalog, lead);
    let mut history = History::new(&catalog);
    let mut request = |demand: u32| {
        let demand = demand.into();
        let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
        history.record(tick(demand.cast_signed(), vec![bucket]));
        onnx.learn(&history);
        onnx.request(&history)
    };
    let before = request(10);
    slot.put(Ok(ANNOUNCED.into()));
    let after = request(11);
    onnx.compute([&before, &after].into_iter());
    let reasons = [&before, &after].map(|pending| onnx.outlook(pending).buckets[0].reason);
    assert_eq!(reasons, [Reason::TooLittleHistory, Reason::Forecast]);
    let fault = &before.result.get().unwrap().faults[0];
    assert_eq!(fault.to_string(), "file: the model changed before the run");
}

/// Each entry is one minute: demand, pods that arrived, and whether the model runs again.
#[test]
fn the_output_stays_in_use_while_nothing_changes() {
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let mut onnx =
        Onnx::new(ModelSource::Pretrained, &catalog, Lead { seconds: 370, tick_seconds: 60 });
    let mut history = History::new(&sample::catalog());
    let quiet = (10, 0, false);
    let minutes = [
        (10, 0, true),
        quiet,
        quiet,
        quiet,
        quiet,
        (10, 0, true),
        quiet,
        (11, 0, true),
        (11, 1, true),
    ];
    for (minute, (demand, pods, runs)) in (0..).zip(minutes) {
        let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
        let buckets = vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }];
        let arrivals = if pods > 0 { vec![(0, pods)] } else { vec![] };
        history.record(Tick { arrivals, ..tick(minute, buckets) });
        onnx.learn(&history);
        assert_eq!(onnx.pending.get().is_none(), runs, "minute {minute}");
        onnx.forecast(&history, &Present::at_tick(time, &Demand::default()));
    }
}

#[test]
fn a_faulty_model_has_no_forecast() {
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let fields = |source, tick_seconds| {
        let (onnx, outlook) = learnt(source, &catalog, tick_seconds);
        assert_eq!(outlook.buckets[0].reason, Reason::TooLittleHistory);
        onnx.faults().into_iter().map(|fault| fault.field).collect::<Vec<_>>()
    };
    assert_eq!(fields(ModelSource::File("nowhere.onnx".into()), 60), ["file"]);
    assert_eq!(fields(ModelSource::Pretrained, 70), ["prophet.spec.tick_seconds"]);
}

/// The model in `models/tests/test_announced.py` adds announced demand to present demand.
const ANNOUNCED: &[u8] = include_bytes!("../../../../../models/tests/announced.onnx");

/// Each entry is one tick of 30 s, half a tick of the model: announced demand, which is also what
/// the model expects. Demand stays at 10 nodes, and no pods arrive, so the model runs again only
/// because announced demand changes.
#[test]
fn announced_demand_is_a_covariate() {
    let slot = ModelSlot::default();
    slot.put(Ok(ANNOUNCED.into()));
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let lead = Lead { seconds: 120, tick_seconds: 30 };
    let mut onnx = Onnx::new(ModelSource::Slot(slot), &catalog, lead);
    let mut history = History::new(&sample::catalog());
    for (at, announced) in [(0, 0), (1, 7), (2, 2), (3, 2), (4, 0)] {
        let time = DateTime::from_timestamp(30 * at, 0).unwrap();
        let bucket = BucketTick { demand: 10, demand_max: 10, announced, ..BucketTick::default() };
        history.record(Tick { time, ..tick(0, vec![bucket]) });
        onnx.learn(&history);
        let outlook = onnx.forecast(&history, &Present::at_tick(time, &Demand::default()));
        assert_eq!(onnx.faults(), [], "tick {at}");
        assert_eq!(outlook.buckets[0].new_nodes.most(), announced, "tick {at}");
    }
}

#[test]
fn covariates_are_those_of_the_ends_of_the_ticks_to_come() {
    let of = |name: &str, end: i64| Covariate::named(name).unwrap().value(end, 3);
    let hour = 3_600;
    for (name, end, value) in [
        ("day_sin", 6 * hour, 1.0),
        ("day_cos", 12 * hour, -1.0),
        ("day_sin", -6 * hour, -1.0),
        ("week_sin", 42 * hour, 1.0),
        ("week_cos", 7 * 24 * hour, 1.0),
        ("announced", hour, 3.0),
    ] {
        assert!((of(name, end) - value).abs() < 1e-9, "{name} at {end}");
    }
    let spec = contract::read(ANNOUNCED).unwrap().spec;
    let catalog = testkit::catalog([("a", 8_000, 0.0), ("b", 8_000, 0.0)]);
    let mut history = History::new(&sample::catalog());
    let announced = |announced| BucketTick { announced, ..BucketTick::default() };
    // Two minutes, which are two ticks of the model, before the end of a week.
    history.record(tick(7 * 24 * 60 - 2, vec![announced(1), announced(2)]));
    let state = ModelState::new(&catalog, Lead { seconds: 120, tick_seconds: 60 });
    let future = state.inputs(&spec, &[1, 0], &history).future;
    let [first, _, _, _, second, ..] = future[..] else { panic!("{future:?}") };
    assert!(first < -1e-4 && second.abs() < 1e-6, "{future:?}");
    assert_eq!(future.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(), [2.0, 1.0, 2.0, 1.0]);
}

/// A run for the headroom only has the same headroom, and no quantiles of demand.
#[test]
fn a_run_for_the_headroom_has_the_same_headroom() {
    let mut model = ModelSource::Pretrained.load().map_err(|faults| format!("{faults:?}")).unwrap();
    let spec = Arc::clone(model.spec());
    let inputs = ModelInput {
        batch: 1,
        buckets: 3,
        target: (0_u16..).map(|at| f32::from(at % 17)).take(3 * spec.window).collect(),
        time: (0..).map(|at| 1_700_000_000 + 300 * at).take(spec.window).collect(),
        state: (0_u16..).map(|at| f32::from(at % 5)).take(3 * spec.state.len()).collect(),
        future: Vec::new(),
    };
    let all = model.run(&inputs).unwrap();
    assert_eq!(all.quantiles.len(), 3 * spec.horizon * spec.levels.len());
    let output = model.run_for(&inputs, Wanted::Headroom).unwrap();
    assert_eq!(output, ModelOutput { quantiles: Vec::new(), headroom: all.headroom });
}

/// An ensemble reads new nodes only. They are the same, and demand ahead is present demand.
#[test]
fn a_model_for_new_nodes_only_forecasts_the_same_new_nodes() {
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let (onnx, outlook) = learnt(ModelSource::Pretrained, &catalog, 60);
    let mut history = History::new(&sample::catalog());
    let mut only = Onnx::patient(ModelSource::Pretrained, &catalog, onnx.lead).only_new_nodes();
    for at in 0..600 {
        let time = DateTime::from_timestamp(1_700_000_000 + at * 60, 0).unwrap();
        let demand = if at % 60 < 20 { 15 } else { 10 };
        let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
        history.record(Tick { time, ..tick(0, vec![bucket]) });
        only.learn(&history);
    }
    let now = history.last().unwrap().time;
    assert_eq!(only.forecast(&history, &Present::at_tick(now, &Demand::default())), outlook);
    assert_eq!(only.demand_ahead(&history, 5), unchanged(&history));
}

/// A changed file is reloaded. The faults of a faulty file are reported, and the previous model
/// stays in use. A simulation keeps the model that it began with.
#[test]
fn a_file_may_change_while_it_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, PRETRAINED).unwrap();
    let [mut cluster, mut simulation] =
        [Runner::limited, Runner::patient].map(|start| start(ModelSource::File(path.clone())));
    let mut faults = || [&mut cluster, &mut simulation].map(|runner| runner.spec().unwrap().1);
    assert_eq!(faults(), [[], []]);
    std::fs::write(&path, b"nonsense").unwrap();
    let [of_cluster, of_simulation] = faults();
    assert_eq!((of_cluster[0].field.as_str(), &of_simulation[..]), ("file", &[][..]));
    std::fs::write(&path, PRETRAINED).unwrap();
    assert_eq!(faults(), [[], []]);
}

/// A copy runs the model of the original, also after the file has changed.
#[test]
fn a_copy_in_a_simulation_has_the_same_model() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, PRETRAINED).unwrap();
    let mut runner = Runner::patient(ModelSource::File(file.path().into()));
    runner.spec().unwrap();
    std::fs::write(&file, b"nonsense").unwrap();
    assert_eq!(runner.clone().spec().unwrap().1, []);
}

#[test]
fn a_fetched_model_may_change_while_it_is_in_use() {
    let slot = ModelSlot::default();
    let mut runner = Runner::limited(ModelSource::Slot(slot.clone()));
    assert_eq!(runner.spec().unwrap_err()[0].to_string(), "file: not fetched yet");
    slot.put(Ok(PRETRAINED.into()));
    assert_eq!(runner.spec().unwrap().1, []);
    slot.put(Err("the bucket is gone".into()));
    for mut runner in [runner, Runner::limited(ModelSource::Slot(slot.clone()))] {
        assert_eq!(runner.spec().unwrap().1[0].to_string(), "file: the bucket is gone");
    }
    let mut runner = Runner::limited(ModelSource::Slot(slot.clone()));
    slot.put(Ok(PRETRAINED.into()));
    assert_eq!(runner.spec().unwrap().1, []);
}

/// Checks that the pretrained model, changed by `turn`, has a fault of `field`.
#[track_caller]
fn check(turn: impl FnOnce(Vec<u8>) -> Vec<u8>, field: &str) {
    check_faults(&turn(PRETRAINED.to_vec()), field);
}

#[track_caller]
fn check_faults(bytes: &[u8], field: &str) {
    let faults = contract::read(bytes).unwrap_err();
    assert!(faults.iter().any(|fault| fault.field == field), "{field} is not in {faults:?}");
}

/// Replaces `from` by `to`, of the same length in bytes, so that the lengths in the protobuf stay
/// valid.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) =
        bytes[at..].windows(from.len()).position(|window| window == from.as_bytes())
    {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

#[test]
fn faults_name_the_field() {
    check(|bytes| bytes[..bytes.len() / 2].to_vec(), "file");
    check(|_| Vec::new(), "file");
    check(|bytes| replaced(&bytes, "prophet.spec", "prophet.spek"), "prophet.spec");
    check(|bytes| replaced(&bytes, "\"version\":1", "\"version\":2"), "prophet.spec.version");
    check(|bytes| replaced(&bytes, "\"window\":288", "\"window\":289"), "inputs.target");
    check(|bytes| replaced(&bytes, "\"horizon\":6", "\"horizon\":7"), "outputs.quantiles");
    check(|bytes| replaced(&bytes, "\"need_64\"", "\"need_65\""), "prophet.spec.state");
    check(|bytes| replaced(&bytes, "[0.1,0.2", "[0.2,0.1"), "prophet.spec.levels");
    let announced = |from: &str, to: &str, field| {
        let to = format!("{to:width$}", width = from.len());
        check_faults(&replaced(ANNOUNCED, from, &to), field);
    };
    announced("\"announced\"", "\"announces\"", "prophet.spec.covariates");
    announced("\"future\": [0.5,", "\"future\": [", "prophet.spec.golden.future");
    announced("[\"week_sin\",", "[", "inputs.future");
}

/// The embedded engine visits a chain of operators by recursion. A longer chain would end the
/// process.
#[test]
fn a_long_chain_of_operators_is_a_fault() {
    let node = |input: &str, output: &str| file::GraphNode {
        inputs: vec![input.into()],
        outputs: vec![output.into()],
        ..file::GraphNode::default()
    };
    let chain = |length: usize| {
        let node = |at: usize| node(&format!("v{at}"), &format!("v{}", at + 1));
        (0..length).map(node).collect::<Vec<_>>()
    };
    let graph = |nodes: Vec<file::GraphNode>| file::Graph { nodes, ..file::Graph::default() };
    let within = |nodes: Vec<file::GraphNode>| {
        let attribute =
            file::Attribute { graph: Some(graph(nodes).into()), ..file::Attribute::default() };
        file::GraphNode { attributes: vec![attribute], ..node("", "") }
    };
    let faults = |nodes: Vec<file::GraphNode>| {
        let model = file::ModelFile { graph: Some(graph(nodes)), ..file::ModelFile::default() };
        let faults = contract::read(&model.encode_to_vec()).unwrap_err();
        faults.into_iter().map(|fault| fault.to_string()).collect::<Vec<_>>().join("; ")
    };
    let most = contract::CHAIN_MAX;
    let long = "graph.node: a chain of more than 2000 operators";
    assert!(!faults(chain(most)).contains("graph.node"));
    assert!(faults(chain(most + 1)).contains(long));
    // Absent inputs and outputs do not connect operators.
    let absent = (0..=most).map(|_| node("", "")).collect();
    assert!(!faults(absent).contains("graph.node"));
    // An operator with a graph inside, which reads the end of a chain outside.
    let captures = |length: usize| {
        let last = format!("v{length}");
        [chain(length), vec![within(vec![node(&last, "inner")])]].concat()
    };
    assert!(!faults(captures(most - 2)).contains("graph.node"));
    assert!(faults(captures(most - 1)).contains(long));
    // The outer operator comes after the one that captures its value.
    let early = [vec![within(vec![node("v1", "inner")])], chain(1)].concat();
    assert!(faults(early).contains("graph.node: v1 is read before the operator that computes it"));
    let reversed = chain(2).into_iter().rev().collect();
    let unsorted = "graph.node: v1 is read before the operator that computes it";
    assert!(faults(reversed).contains(unsorted));
    let twice = faults([chain(1), chain(1)].concat());
    assert!(twice.contains("graph.node: two operators compute v1"), "{twice}");
    // Two branches may use the same names.
    assert!(!faults(vec![within(chain(1)), within(chain(1))]).contains("graph.node"));
    let custom = file::GraphNode { domain: "ours".into(), ..node("", "") };
    assert!(faults(vec![within(vec![custom])]).contains("is a custom operator"));
    let nested = (0..40).fold(chain(1), |inner, _| vec![within(inner)]);
    let nested = faults(nested);
    assert!(nested.contains("recursion limit reached"), "{nested}");
}

#[test]
fn an_output_that_differs_from_the_golden_output_is_a_fault() {
    let text = String::from_utf8_lossy(PRETRAINED);
    let at = text.find("\"quantiles\":[").map(|at| &text[at..at + 20]).unwrap();
    let other =
        if at.ends_with('9') { at.replace('9', "1") } else { at[..12].to_owned() + "[99999.9" };
    let bytes = replaced(PRETRAINED, at, &other[..at.len()]);
    let faults = Model::load(&bytes).err().unwrap();
    assert!(faults.iter().any(|fault| fault.field.starts_with("prophet.spec")), "{faults:?}");
}

/// Expected values by hand: the lead time is six ticks, and a need is 5 if a rise lies within its
/// window, 0 otherwise. Only closed windows count.
#[test]
fn features_are_those_of_training() {
    let catalog = testkit::catalog([("a", 8_000, 0.0)]);
    let (onnx, _) = learnt(ModelSource::Pretrained, &catalog, 60);
    let spec = ModelSource::Pretrained
        .load()
        .map_err(|faults| format!("{faults:?}"))
        .unwrap()
        .spec()
        .clone();
    let mut history = History::new(&sample::catalog());
    let time = DateTime::from_timestamp(1_700_000_000 + 599 * 60, 0).unwrap();
    let buckets = vec![BucketTick { demand: 10, demand_max: 10, ..BucketTick::default() }];
    history.record(Tick { time, ..tick(0, buckets) });
    let inputs = onnx.state.inputs(&spec, &[0], &history);
    assert_eq!(inputs.time.last(), Some(&time.timestamp()));
    // Ten hours of ticks of five minutes, with a rise in four of the twelve of each hour.
    let known: Vec<f32> = inputs.target.iter().copied().filter(|value| !value.is_nan()).collect();
    let high = known.iter().filter(|value| **value > 12.0).count();
    assert_eq!((known.len(), high, inputs.target.last()), (120, 40, Some(&10.0)));
    let named =
        |name: &str| inputs.state[spec.state.iter().position(|known| known == name).unwrap()];
    assert_eq!((named("demand"), named("lead_seconds")), (10.0, 360.0));
    assert!(named("need_day_ago").is_nan());
    // Of 594 closed windows, six contain each of the nine rises after the first tick.
    assert!((named("need_4") - 54.0 / 594.0).abs() < 1e-6, "{}", named("need_4"));
    assert!(named("need_8").abs() < 1e-6);
}
