//! A tick of a run as a view of the dashboard.

use std::sync::{Mutex, PoisonError};

use dashboard::{BucketView, Captions, Curve, Dashboard, Figure, PolicyView, Range, Unit};
use placeholders::Prices;
use report::{clock, day, grouped};
use simulator::{Figures, Moment, NamedPolicy, NodeCounts, Pricing, SimulationInput};

/// The texts of the dashboard of the demo.
pub const CAPTIONS: Captions = Captions {
    title: "Prophet demo",
    lead: "Two simulated clusters run the same jobs in fast time: one with the autoscaler alone, and one in which Prophet holds placeholders, so that nodes are ready when jobs come.",
    curves: [
        Curve { title: "Jobs waiting for a node", unit: "jobs" },
        Curve { title: "Minutes that jobs waited so far", unit: "minutes" },
        Curve { title: "Nodes", unit: "ready and launching" },
        Curve { title: "Dollars of nodes so far", unit: "dollars" },
    ],
    nodes: "Demand is the number of nodes that jobs occupy or wait for. The band on top of it is the forecast of new nodes.",
    range: Range::Day,
};

/// The policies of the demo: the autoscaler alone, and Prophet's default.
pub const POLICIES: [NamedPolicy; 2] = [NamedPolicy::Reactive, NamedPolicy::DEFAULT];

/// The names of the policies on the dashboard.
const NAMES: [&str; POLICIES.len()] = ["reactive (autoscaler alone)", "ensemble (Prophet)"];

/// How often figures are computed, in seconds. Their curves have a point of a day every four
/// minutes.
const FIGURES_EVERY: i64 = 240;

/// The views of all runs of a demo.
pub(super) struct Views<'a> {
    input: SimulationInput<'a>,
    dashboard: &'a Dashboard,
    prices: Prices,
    /// The result of the whole comparison, in sentences.
    answer: &'a str,
    /// The last figures of each run, and the time at which they were computed.
    figures: Mutex<[Option<(i64, Figures)>; POLICIES.len()]>,
}

/// The view of one run, which is updated at each tick of the run.
pub(super) struct RunViews<'a> {
    views: &'a Views<'a>,
    at: usize,
}

impl<'a> Views<'a> {
    pub(super) fn new(
        input: SimulationInput<'a>,
        dashboard: &'a Dashboard,
        prices: Prices,
        answer: &'a str,
    ) -> Self {
        Self { input, dashboard, prices, answer, figures: Mutex::default() }
    }

    /// Shows the whole comparison, and that the policies still learn.
    pub(super) fn learning(&self) {
        let from = self.input.window.0;
        self.headline(&format!(
            "Below, the same jobs run in fast time. Prophet learns from the jobs before {} {}, at full speed; the comparison begins at that time.",
            day(from),
            clock(from)
        ));
    }

    /// Shows the whole comparison, and that the log has ended.
    pub(super) fn finished(&self) {
        self.headline("The log has ended, and the run below is finished.");
    }

    /// Shows the whole comparison, followed by a sentence about the run.
    fn headline(&self, sentence: &str) {
        self.dashboard.headline(format!("{}\n{sentence}", self.answer));
    }

    pub(super) fn of_run(&'a self, at: usize) -> RunViews<'a> {
        RunViews { views: self, at }
    }

    /// The last figures of all runs, after those of one run were brought up to date.
    fn figures(&self, at: usize, moment: &Moment<'_>) -> [Option<(i64, Figures)>; POLICIES.len()] {
        let mut all = *self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = all[at].is_none_or(|(last, _)| moment.time - last >= FIGURES_EVERY);
        if moment.time > self.input.window.0 && is_due {
            let settings = self.input.settings;
            let (scan, tiers) = (settings.scan.as_seconds(), &settings.tiers);
            let pricing = Pricing { prices: &self.prices, tiers, warm_share: 0.0 };
            let figures = Figures::of(&moment.log(), pricing, scan);
            let mut shared = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
            shared[at] = Some((moment.time, figures));
            all = *shared;
        }
        all
    }
}

impl RunViews<'_> {
    /// Gives the dashboard the view of a tick.
    pub(super) fn note(&mut self, moment: &Moment<'_>) {
        let Views { input, dashboard, prices, .. } = self.views;
        let demand = moment.demand();
        let bucket = |(id, bucket): (usize, &embedder::Bucket)| {
            let NodeCounts { placeholders, ready, launching, .. } = moment.nodes(id);
            let view = BucketView {
                name: bucket.name.clone(),
                demand: demand[id],
                placeholders,
                ready,
                launching,
                weights: moment.weights(id),
                ..BucketView::default()
            };
            match moment.turn {
                Some(turn) => view.with_turn(turn, id, input.catalog, prices),
                None => view,
            }
        };
        let buckets: Vec<BucketView> =
            input.catalog.buckets().iter().enumerate().map(bucket).collect();
        let nodes: u64 = buckets.iter().map(|bucket| bucket.ready + bucket.launching).sum();
        let all = self.views.figures(self.at, moment);
        let [reactive, _] = all.map(|figures| figures.map(|(_, figures)| figures));
        let own = all[self.at].map(|(_, figures)| figures);
        let of_own = |value: fn(&Figures) -> f64| own.as_ref().map_or(f64::NAN, value);
        dashboard.note(PolicyView {
            name: NAMES[self.at].into(),
            acting: None,
            time: moment.time,
            tick_seconds: input.settings.tick.as_seconds(),
            curves: [
                moment.waiting_jobs() as f64,
                of_own(|figures| figures.pending_minutes.sum),
                nodes as f64,
                of_own(|figures| figures.dollars),
            ],
            figures: own
                .zip(reactive)
                .map_or_else(Vec::new, |(own, reactive)| self.figures(&own, &reactive)),
            if_acted: None,
            planned: Vec::new(),
            buckets,
            faults: Vec::new(),
        });
        if let [Some((time, reactive)), Some((_, prophet))] = all {
            let so_far = so_far(input.window.0, time, &reactive, &prophet);
            self.views.headline(&so_far);
        }
    }

    fn figures(&self, own: &Figures, reactive: &Figures) -> Vec<Figure> {
        let row = |name, meaning, unit, value| Figure { name, meaning, unit, value };
        // The comparison of reactive with itself is left out.
        let beyond = |value: f64| if self.at == 0 { f64::NAN } else { value };
        let removed = reactive.pending_pod_hours - own.pending_pod_hours;
        vec![
            row(
                "minutes that jobs waited",
                "from submission to start",
                Unit::Minutes,
                own.pending_minutes.sum,
            ),
            row(
                "pods hidden",
                "pods that waited no longer than one scan of the autoscaler",
                Unit::Share,
                own.pods_hidden_share,
            ),
            row("launches", "nodes that were requested", Unit::Count, own.launches),
            row(
                "launches hidden",
                "used launches that no pod waited for",
                Unit::Share,
                own.used_launches_hidden_share,
            ),
            row("dollars of nodes", "from request to removal", Unit::Dollars, own.dollars),
            row(
                "spent",
                "dollars of nodes beyond those of the autoscaler alone",
                Unit::Dollars,
                beyond(own.dollars - reactive.dollars),
            ),
            row(
                "waiting avoided, priced",
                "waiting less than with the autoscaler alone, at the policy's price of a pending pod-hour",
                Unit::Dollars,
                beyond(removed * self.views.prices.wait()),
            ),
        ]
    }
}

/// Returns what Prophet changed so far.
fn so_far(from: i64, time: i64, reactive: &Figures, prophet: &Figures) -> String {
    let (before, after) = (reactive.pending_minutes.sum, prophet.pending_minutes.sum);
    let since = format!(
        "Below, the same jobs run in fast time. From {} {} to {} {}",
        day(from),
        clock(from),
        day(time),
        clock(time)
    );
    if before <= 0.0 {
        return format!("{since}, no job has waited for a node.");
    }
    let change = |value: f64| {
        let word = if value > 0.0 { "more" } else { "less" };
        format!("{:.1}\u{a0}% {word}", 100.0 * value.abs())
    };
    format!(
        "{since}, jobs have waited {} minutes for nodes with the autoscaler alone, and {} with Prophet: {}. Its nodes cost {}.",
        grouped(before),
        grouped(after),
        change(after / before - 1.0),
        change(prophet.dollars / reactive.dollars - 1.0)
    )
}
