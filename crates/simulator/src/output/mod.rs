//! Tables, files and plots of a comparison.
//!
//! ```text
//! text_table.rs       the table for a terminal
//! files.rs            jobs.csv, nodes.csv, warm.csv, ticks.csv: the figures can be recomputed
//! html.rs             one self-contained HTML page
//! headline.rs         its answer, and the conditions of the run
//! frontier.rs         its plot of waiting against dollars
//! curve.rs            what each further hour of waiting that is removed costs
//! burst.rs            its hour of the worst burst
//! shown.rs            the policies that it shows, and their colours
//! two_line_header.rs  a table beside that of all policies
//! spot.rs             cost and waiting without spot instances and with them
//! tiers.rs            the waiting of each tier
//! ```

mod burst;
mod curve;
mod files;
pub mod frontier;
mod headline;
pub mod html;
mod shown;
mod spot;
mod text_table;
mod tiers;
mod two_line_header;

use std::io;

use embedder::Catalog;
use placeholders::Prices;
use serde_json::{Value, json};

pub use text_table::write_table;

use crate::compare::{Comparison, PolicyResult, SpotInstances};
use crate::settings::SimulationSettings;
use traces::Trace;

/// Writes all files of a report.
///
/// With several replays, the CSV files of each replay are in a folder of their own, `replay-N/`.
///
/// # Errors
/// Returns the error of `write`.
pub fn write_report(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
    write: impl Fn(&str, &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let replays = comparison.policies.first().map_or(0, |policy| policy.logs.len());
    for replay in 0..replays {
        let folder = if replays > 1 { format!("replay-{}/", replay + 1) } else { String::new() };
        let logs = || {
            comparison
                .policies
                .iter()
                .filter_map(move |policy| Some((policy.name(), policy.logs.get(replay)?)))
        };
        write(&format!("{folder}jobs.csv"), &mut |to| files::jobs(logs(), trace, to))?;
        write(&format!("{folder}nodes.csv"), &mut |to| files::nodes(logs(), catalog, to))?;
        write(&format!("{folder}warm.csv"), &mut |to| files::warm(logs(), catalog, to))?;
        write(&format!("{folder}ticks.csv"), &mut |to| files::ticks(logs(), catalog, to))?;
    }
    let document = comparison.document(settings, trace, catalog);
    write("settings.json", &mut |to| {
        serde_json::to_writer_pretty(to, settings).map_err(io::Error::from)
    })?;
    write("figures.json", &mut |to| {
        serde_json::to_writer_pretty(to, &document).map_err(io::Error::from)
    })?;
    if let Some(picture) = frontier::frontier_file(comparison) {
        write("frontier.svg", &mut |to| to.write_all(picture.as_bytes()))?;
    }
    let page = html::page(comparison, settings, trace, catalog);
    write("report.html", &mut |to| to.write_all(page.as_bytes()))
}

impl PolicyResult {
    /// The name of the policy, as it is printed.
    pub fn name(&self) -> String {
        self.named_policy.to_string()
    }
}

impl Comparison {
    /// Returns the comparison as one JSON object: `{"trace", "window", "instance_types",
    /// "wait_dollars_per_pod_hour", "settings", "policies", "spot"}`.
    pub fn document(
        &self,
        settings: &SimulationSettings,
        trace: &Trace,
        catalog: &Catalog,
    ) -> Value {
        let policies = self.policies.iter().map(|policy| {
            let mut object = json!({ "name": policy.name() });
            merge(&mut object, &json!(policy.figures));
            if let (Some(stderr), Some(object)) = (policy.stderr, object.as_object_mut()) {
                object.insert("stderr".into(), json!(stderr));
            }
            if let (Some(ratio), Some(object)) = (policy.cost_ratio, object.as_object_mut()) {
                object.insert("cost_ratio".into(), json!(ratio));
            }
            if let (Some(hidden), Some(object)) =
                (policy.hidden_over_14_days, object.as_object_mut())
            {
                object.insert("pods_hidden_over_14_days".into(), json!(hidden));
            }
            if let (crate::named_policy::NamedPolicy::BestConstant, Some(n), Some(object)) =
                (policy.named_policy, self.best_constant, object.as_object_mut())
            {
                object.insert("constant".into(), json!(n));
            }
            if let (false, Some(object)) = (policy.tiers.is_empty(), object.as_object_mut()) {
                object.insert("tiers".into(), json!(policy.tiers));
            }
            object
        });
        let policies: Vec<Value> = policies.collect();
        let spot = self.spot.iter().map(|case| {
            let instances = match case.instances {
                SpotInstances::None => "on_demand",
                SpotInstances::Uninterrupted => "uninterrupted",
                SpotInstances::AsSet => "as_set",
            };
            let mut object =
                json!({ "name": case.named_policy.to_string(), "spot_instances": instances });
            merge(&mut object, &json!(case.figures));
            object
        });
        let spot: Vec<Value> = spot.collect();
        let prices = Prices::new(settings.policy.objective, catalog);
        let types = catalog.buckets().iter().enumerate().map(|(id, bucket)| {
            json!({
                "name": bucket.name,
                "dollars_per_hour": bucket.hourly.dollars(),
                "idle_dollars_per_hour": prices.idle(id),
            })
        });
        let types: Vec<Value> = types.collect();
        let (from, until) = self.window;
        let first = trace.jobs.first().map(|job| job.submit);
        report::versioned(json!({
            "trace": trace.source,
            "window": { "warm_up_from": first, "from": from, "until": until },
            "instance_types": types,
            "wait_dollars_per_pod_hour": prices.wait(),
            "settings": settings,
            "policies": policies,
            "spot": spot,
        }))
    }
}

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(from.clone());
    }
}
