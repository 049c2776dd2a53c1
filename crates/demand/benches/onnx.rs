//! Measures runs of the shipped model on one thread, over 50 buckets and for several rows of one
//! bucket: `cargo bench -p demand --bench onnx`.
//!
//! The embedded engine runs the model, or ONNX Runtime if `PROPHET_ONNX_RUNTIME` is the path of its
//! library. A process has one engine, so a comparison needs two runs.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group};
use demand::forecast::onnx::{Model, ModelInput, PRETRAINED, in_engine_thread, start};

/// The numbers of rows and buckets in a run.
const SIZES: [(usize, usize); 4] = [(1, 50), (1, 1), (16, 1), (32, 1)];

fn inference(c: &mut Criterion) {
    let library = std::env::var_os("PROPHET_ONNX_RUNTIME").map(PathBuf::from);
    let engine = start(library.as_deref()).expect("the engine starts");
    let mut model = Model::load(PRETRAINED)
        .map_err(|faults| format!("{faults:?}"))
        .expect("the shipped model is usable");
    let (window, features) = (model.spec().window, model.spec().state.len());
    for (batch, buckets) in SIZES {
        let rows = batch * buckets;
        let times = (0..).map(|at| 1_700_000_000 + 300 * at).take(window);
        let inputs = ModelInput {
            batch,
            buckets,
            target: (0_u16..).map(|at| f32::from(at % 17)).take(window * rows).collect(),
            time: (0..batch).flat_map(|_| times.clone()).collect(),
            state: (0_u16..).map(|at| f32::from(at % 5)).take(features * rows).collect(),
            future: Vec::new(),
        };
        let name = format!("the shipped model, rows: {batch}, buckets: {buckets}, {engine}");
        c.bench_function(&name, |b| b.iter(|| model.run(black_box(&inputs))));
    }
}

criterion_group!(benches, inference);

fn main() {
    // Runs of the embedded engine need no switch to another thread there.
    in_engine_thread(benches);
    Criterion::default().configure_from_args().final_summary();
}
