//! Measures a run of the shipped model over 50 buckets on one thread:
//! `cargo bench -p demand --bench onnx`.
//!
//! The embedded engine runs the model, or ONNX Runtime if `PROPHET_ONNX_RUNTIME` is the path of its
//! library. A process has one engine, so a comparison needs two runs.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use demand::forecast::onnx::{Model, ModelInput, PRETRAINED, start};

/// The number of buckets in one run of the model.
const BUCKETS: usize = 50;

fn inference(c: &mut Criterion) {
    let library = std::env::var_os("PROPHET_ONNX_RUNTIME").map(PathBuf::from);
    let engine = start(library.as_deref()).expect("the engine starts");
    let mut model = Model::load(PRETRAINED)
        .map_err(|faults| format!("{faults:?}"))
        .expect("the shipped model is usable");
    let (window, features) = (model.spec().window, model.spec().state.len());
    let inputs = ModelInput {
        batch: 1,
        buckets: BUCKETS,
        target: (0_u16..).map(|at| f32::from(at % 17)).take(window * BUCKETS).collect(),
        time: (0..).map(|at| 1_700_000_000 + 300 * at).take(window).collect(),
        state: (0_u16..).map(|at| f32::from(at % 5)).take(features * BUCKETS).collect(),
        future: Vec::new(),
    };
    let name = format!("the shipped model, {BUCKETS} buckets, {engine}");
    c.bench_function(&name, |b| b.iter(|| model.run(black_box(&inputs))));
}

criterion_group!(benches, inference);
criterion_main!(benches);
