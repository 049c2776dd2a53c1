//! Checks that the networks of a run can be run, so that errors come before the long runs.

use std::path::Path;

use demand::forecast::{Method, onnx};
use embedder::Catalog;
use simulator::{NamedPolicy, SimulationSettings};

/// Starts the engine and loads the model if the policy `onnx` uses it or an option names it, so
/// that errors come before the long runs.
pub(super) fn check_network(
    settings: &SimulationSettings,
    library: Option<&Path>,
) -> anyhow::Result<()> {
    let is_onnx = |policy: &NamedPolicy| matches!(policy, NamedPolicy::Forecast(Method::Onnx, _));
    let named = library.is_some() || settings.model.is_some();
    if !named && !settings.policies.iter().any(is_onnx) {
        return Ok(());
    }
    let source = settings.model_source();
    let tick = settings.tick;
    let fits = |model: onnx::Model| {
        let of_model = model.spec().tick_seconds;
        anyhow::ensure!(
            of_model % tick.as_seconds() == 0,
            "{source} has ticks of {of_model} s, which are no multiple of --tick {tick}"
        );
        Ok(())
    };
    usable(&source, library).and_then(fits)
}

/// Loads the networks of the policies `paper`. A network that an option names must suit the
/// buckets; if the shipped one does not, `paper` holds the ladder.
pub(super) fn check_paper(
    settings: &SimulationSettings,
    catalog: &Catalog,
    library: Option<&Path>,
) -> anyhow::Result<()> {
    let suits = |model: onnx::Model| {
        let known = |name: &String| catalog.buckets().iter().any(|bucket| bucket.name == *name);
        let names = model.spec().buckets.clone().unwrap_or_default();
        anyhow::ensure!(
            names.iter().all(known),
            "it was trained for the instance types {}: give them with --catalog",
            names.join(", ")
        );
        Ok(())
    };
    for named_policy in &settings.policies {
        let NamedPolicy::Paper(forecast) = named_policy else { continue };
        let Some(source) = settings.paper_network(*forecast) else { continue };
        let Err(error) = usable(&source, library).and_then(suits) else { continue };
        if matches!(source, onnx::ModelSource::File(_)) {
            return Err(error.context(source.to_string()));
        }
        eprintln!("note: {named_policy} holds the ladder, without {source}: {error:#}");
    }
    Ok(())
}

/// Loads a model. Fails if the engine cannot start or cannot run the model.
pub(super) fn usable(
    source: &onnx::ModelSource,
    library: Option<&Path>,
) -> anyhow::Result<onnx::Model> {
    let engine = onnx::start(library)?;
    source.load().map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{source} cannot be run by {engine}: {}", faults.join("; "))
    })
}
