//! The figures of a backtest in the paper's protocol: counts over time, and for each model of the
//! paper its forecasts and errors.

use embedder::Catalog;
use report::{Axis, Layer, Mark, Names, Plot, escape, section};

use crate::curves::{Curves, Forecast, ModelCurves, reduced};

/// Adds the sections of the figures.
pub(super) fn write(body: &mut String, curves: &Curves, catalog: &Catalog) {
    let name = |place: usize| {
        let bucket = curves.counts.get(place).and_then(|of| catalog.buckets().get(of.bucket));
        bucket.map_or("", |bucket| bucket.name.as_str())
    };
    let counts = curves.counts.iter().enumerate().map(|(place, of)| {
        Layer::new(name(place), &format!("c{}", place % 8), Mark::Steps(of.points.clone()))
    });
    let figure = plot("instances", counts.collect()).figure("Counts of each bucket, over time");
    let note = "The instances of each bucket in use, by Algorithm 2, over the whole log.";
    section(body, "Bucket counts", note, &figure);
    let Some((widely, rarely)) = curves.widely_and_rarely_used() else { return };
    for model in &curves.models {
        let title = format!("Forecasts one tick ahead: {}", model.name);
        let note = format!(
            "The forecast and actual counts of {}, the most used bucket, and below the forecast less the actual count of it and of {}, the least used bucket.",
            escape(name(widely)),
            escape(name(rarely))
        );
        let figures =
            forecasts(model, widely) + &errors(model, [widely, rarely].map(|at| (at, name(at))));
        section(body, &title, &note, &figures);
    }
}

fn forecasts(model: &ModelCurves, place: usize) -> String {
    let points = reduced(model.buckets.get(place).map_or(&[][..], Vec::as_slice));
    let line = |of: fn(&Forecast) -> f64| {
        points.iter().map(|point| (point.time, of(point))).collect::<Vec<_>>()
    };
    let layers = vec![
        Layer::new("actual", "c4", Mark::Steps(line(|point| point.actual))),
        Layer::new("forecast", "c0", Mark::Line(line(|point| point.expected))),
    ];
    plot("instances", layers).figure("Forecast and actual counts, over time")
}

fn errors(model: &ModelCurves, places: [(usize, &str); 2]) -> String {
    let same = places[0].0 == places[1].0;
    let line = |(at, (place, name)): (usize, &(usize, &str))| {
        let points = reduced(model.buckets.get(*place).map_or(&[][..], Vec::as_slice));
        let errors = points.iter().map(|point| (point.time, point.error())).collect();
        Layer::new(name, &format!("c{at}"), Mark::Line(errors))
    };
    let layers = places.iter().take(if same { 1 } else { 2 }).enumerate().map(line);
    plot("error, instances", layers.collect()).figure("Errors of the forecasts, over time")
}

fn plot(y_label: &str, layers: Vec<Layer>) -> Plot {
    Plot {
        x_label: String::new(),
        y_label: y_label.into(),
        x: Axis::Time,
        y_from_zero: false,
        x_end: None,
        names: Names::Legend,
        height: 240.0,
        layers,
    }
}
