//! A policy of a cluster, as it is written, for the replay of a log.

use std::path::Path;

use anyhow::{Context as _, bail};
use base::span::Span;
use controller::cluster::Allowed;
use controller::crd::OverprovisioningPolicy;
use instances::CatalogFile;
use serde_json::Value;
use simulator::{NamedPolicy, SimulationSettings};

use crate::cli::input;

/// The parts of a policy that need a cluster. Of `workloads`, the tiers apply.
const UNUSED: [&str; 4] = ["mode", "workloads", "rollout", "placeholders"];

/// Sets the objective, the limits, the behavior, the tick and the forecasts of the policy in a
/// file, and leaves out the instance types of the catalog that it does not list. The policy is
/// compared with the autoscaler alone.
pub(super) fn apply(path: &Path, settings: &mut SimulationSettings) -> anyhow::Result<()> {
    let (text, file) = (input::text(path)?, path.display().to_string());
    let written: Value = base::input::parse(&text, &file)?;
    match written["kind"].as_str() {
        Some("OverprovisioningPolicy") => {}
        Some(kind) => bail!("{file}: expected an OverprovisioningPolicy, got the kind {kind}"),
        None => bail!("{file}: expected an OverprovisioningPolicy, but it has no kind"),
    }
    let policy: OverprovisioningPolicy = base::input::parse(&text, &file)?;
    let read = serde_json::to_value(&policy.spec)?;
    if let Some(field) = unknown(&written["spec"], &read) {
        let field = format!("spec{field}");
        let line = base::input::line_of(&text, &field);
        let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        bail!("{place}: {field}: unknown field");
    }
    let allowed = Allowed { placeholder_priority_max: i32::MAX, ..Allowed::default() };
    let of = policy.spec.settings(&allowed);
    let of = of.map_err(|faults| anyhow::anyhow!("{}", faults.join("; "))).context(file.clone())?;
    settings.tick = Span::seconds(u32::try_from(of.tick_seconds).unwrap_or(u32::MAX));
    settings.policy = of.policy;
    settings.ladder = of.ladder;
    settings.ladder_first = of.ladder_first;
    settings.expression = of.expression;
    settings.tiers = of.workloads.tiers;
    settings.policies = vec![NamedPolicy::Reactive, NamedPolicy::Forecast(of.method, None)];
    let types = &of.buckets.instance_types;
    if let Some(catalog) = settings.catalog.as_mut().filter(|_| !types.is_empty()) {
        catalog.instance_types.retain(|entry| types.contains(&entry.name));
        if catalog.instance_types.is_empty() {
            bail!(
                "{file}: spec.buckets.instanceTypes: the catalog has none of {}",
                types.join(", ")
            );
        }
    } else if !types.is_empty() {
        for name in types {
            input::instance_type(name).map_err(|problem| {
                anyhow::anyhow!("{file}: spec.buckets.instanceTypes: {name}: {problem}")
            })?;
        }
        settings.catalog = Some(CatalogFile::of_types(types.iter().map(String::as_str)));
    }
    let unused = UNUSED.iter().filter(|field| !written["spec"][field].is_null());
    let unused: Vec<String> = unused.map(|field| format!("spec.{field}")).collect();
    if !unused.is_empty() {
        eprintln!(
            "note: {file}: the replay of a log leaves out {}; all jobs of the log count",
            unused.join(", ")
        );
    }
    Ok(())
}

/// The path of the first field that was written and not read, such as `.limits.total`.
fn unknown(written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            written.iter().find_map(|(name, value)| match read.get(name) {
                Some(read) => Some(format!(".{name}{}", unknown(value, read)?)),
                None => Some(format!(".{name}")),
            })
        }
        (Value::Array(written), Value::Array(read)) => {
            let mut pairs = written.iter().zip(read).enumerate();
            pairs.find_map(|(at, (value, read))| Some(format!("[{at}]{}", unknown(value, read)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use advice::Setting;
    use placeholders::Objective;

    use super::*;

    /// The policy that `prophet advise` writes for a setting decides as the setting.
    #[test]
    fn a_policy_of_an_advised_setting_is_the_setting() {
        let mut run = SimulationSettings::default();
        run.policy.limits.total = Some(3);
        run.policy.limits.buckets = [("m5.large".to_owned(), 2)].into();
        run.policy.behavior.scale_down.stabilization_window_seconds = 300;
        run.tiers = vec!["production=200:4".parse().unwrap()].into();
        for name in ["ensemble", "ensemble:0.9", "constant:4", "burst:10m:4", "burst:5m", "state"] {
            let setting = Setting::of(name.parse().unwrap());
            let policy = setting.policy_of_cluster(&run).unwrap();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            write!(file, "{}", base::input::to_yaml(&policy).unwrap()).unwrap();
            let mut settings = SimulationSettings::default();
            apply(file.path(), &mut settings).unwrap();
            assert_eq!(settings.policy.limits, run.policy.limits, "{name}");
            assert_eq!(settings.policy.behavior, run.policy.behavior, "{name}");
            assert_eq!(settings.tiers, run.tiers, "{name}");
            let (policy, objective) = (settings.policies[1], settings.policy.objective);
            match name {
                "ensemble" | "state" => {
                    assert_eq!((policy, objective), (setting.policy, run.policy.objective));
                }
                "ensemble:0.9" => {
                    assert_eq!(
                        (policy, objective),
                        (NamedPolicy::DEFAULT, Objective::Quantile(0.9))
                    );
                }
                "constant:4" => {
                    let ladder = serde_json::to_value(&settings.ladder).unwrap();
                    let steps = serde_json::json!([[0, 4]]);
                    assert_eq!(
                        (policy.to_string(), &ladder["nodesToReplicas"]),
                        ("ladder".into(), &steps)
                    );
                }
                _ => {
                    let expression = serde_json::to_value(&settings.expression).unwrap();
                    let text = expression.as_str().unwrap();
                    let half = text.contains("newNodes(") && text.contains(") / 2");
                    assert!(policy == NamedPolicy::EXPRESSION && half, "{text}");
                    assert_eq!(text.starts_with("min("), name.ends_with(":4"), "{text}");
                }
            }
        }
    }
}
