//! The shipped network over 50 buckets, one thread: `cargo bench -p prophet --bench onnx`, with the embedded engine, or, where
//! `PROPHET_ONNX_RUNTIME` names its library, with ONNX Runtime. A process has one engine.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use prophet::forecast::onnx::{Inputs, Network, PRETRAINED, start};

const BUCKETS: usize = 50;

fn inference(c: &mut Criterion) {
    let library = std::env::var_os("PROPHET_ONNX_RUNTIME").map(PathBuf::from);
    let engine = start(library.as_deref()).expect("the engine is there");
    let mut network = Network::load(PRETRAINED)
        .map_err(|faults| format!("{faults:?}"))
        .expect("the shipped network is usable");
    let (window, features) = (network.spec().window, network.spec().state.len());
    let inputs = Inputs {
        buckets: BUCKETS,
        target: (0_u16..).map(|at| f32::from(at % 17)).take(window * BUCKETS).collect(),
        time: (0..).map(|at| 1_700_000_000 + 300 * at).take(window).collect(),
        state: (0_u16..).map(|at| f32::from(at % 5)).take(features * BUCKETS).collect(),
    };
    let name = format!("the shipped network, {BUCKETS} buckets, {engine}");
    c.bench_function(&name, |b| b.iter(|| network.run(black_box(&inputs))));
}

criterion_group!(benches, inference);
criterion_main!(benches);
