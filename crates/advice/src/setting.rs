//! A policy with the options that are varied.

use std::fmt;

use base::span::Span;
use placeholders::Objective;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use simulator::{Candidate, NamedPolicy, SimulationSettings};

/// A policy with the options that are varied. An option that is absent is that of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setting {
    /// The policy.
    pub policy: NamedPolicy,
    /// The objective by which it decides. The cost of all settings has the prices of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// How long a node must be unneeded before the autoscaler removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down_unneeded_time: Option<Span>,
    /// The time between two decisions while demand does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Span>,
}

/// The values of the options that are varied, beside those of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Varied {
    /// Objectives of the default policy.
    pub objectives: Vec<Objective>,
    /// Times after which the autoscaler removes an unneeded node.
    pub scale_down_unneeded_times: Vec<Span>,
    /// Lengths of the tick.
    pub ticks: Vec<Span>,
}

impl Setting {
    /// A policy with the options of the run.
    pub fn of(policy: NamedPolicy) -> Self {
        Self { policy, objective: None, scale_down_unneeded_time: None, tick: None }
    }

    /// The autoscaler alone first, then the policies, and then the autoscaler alone and the default
    /// policy under each value of the varied options, one option at a time.
    pub fn all(policies: &[NamedPolicy], varied: &Varied) -> Vec<Self> {
        let [reactive, default] = [NamedPolicy::Reactive, NamedPolicy::DEFAULT].map(Self::of);
        let policies = policies.iter().map(|policy| Self::of(*policy));
        let objectives = varied.objectives.iter();
        let objectives = objectives.map(|one| Self { objective: Some(*one), ..default.clone() });
        let unneeded = varied.scale_down_unneeded_times.iter().flat_map(|time| {
            let with =
                |setting: &Self| Self { scale_down_unneeded_time: Some(*time), ..setting.clone() };
            [with(&reactive), with(&default)]
        });
        let ticks = varied.ticks.iter().map(|tick| Self { tick: Some(*tick), ..default.clone() });
        let mut all = vec![reactive.clone()];
        for setting in policies.chain(objectives).chain(unneeded).chain(ticks) {
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
        all
    }

    /// Its runs under the options of the run.
    pub fn candidate(&self, run: &SimulationSettings) -> Candidate {
        let mut settings = run.clone();
        settings.policies = vec![self.policy];
        settings.policy.objective = self.objective.unwrap_or(settings.policy.objective);
        let unneeded = &mut settings.scale_down_unneeded_time;
        *unneeded = self.scale_down_unneeded_time.unwrap_or(*unneeded);
        settings.tick = self.tick.unwrap_or(settings.tick);
        Candidate { name: self.to_string(), policy: self.policy, settings }
    }

    /// Checks that it can run under the options of a run.
    ///
    /// # Errors
    /// An option is out of range, or the policy is found by a search over runs.
    pub fn check(&self, run: &SimulationSettings) -> Result<(), String> {
        if self.policy == NamedPolicy::BestConstant {
            return Err("best-constant is found by a search over runs: give the constants, such as constant:1 and constant:2".into());
        }
        self.candidate(run).settings.check().map_err(|error| error.to_string())
    }

    /// Whether a cluster can have it: the autoscaler alone, or a policy of the custom resource.
    /// Other settings are references, and are not chosen.
    pub fn is_for_clusters(&self) -> bool {
        self.policy == NamedPolicy::Reactive || self.forecast().is_some()
    }

    /// The `OverprovisioningPolicy` that has it in a cluster, in the mode `Observe`. `None` for the
    /// autoscaler alone, and for a reference.
    pub fn policy_of_cluster(&self, run: &SimulationSettings) -> Option<Value> {
        let forecast = self.forecast()?;
        let mut spec = json!({"mode": "Observe", "forecast": forecast});
        if self.policy == NamedPolicy::EXPRESSION {
            spec["forecast"]["expression"] = serde_json::to_value(&run.expression).ok()?;
        } else if self.policy == NamedPolicy::Ladder {
            spec["forecast"]["ladder"] = serde_json::to_value(&run.ladder).ok()?;
        }
        if matches!(self.policy, NamedPolicy::Forecast(..)) {
            let level = match self.policy {
                NamedPolicy::Forecast(_, level) => level.map(Objective::Quantile),
                _ => None,
            };
            spec["objective"] = match level.or(self.objective).unwrap_or(run.policy.objective) {
                Objective::Quantile(share) => json!({"serviceLevel": 100.0 * share}),
                Objective::WaitCost(dollars) => json!({"waitCost": dollars}),
                Objective::WaitRatio(ratio) => json!({"waitRatio": ratio}),
            };
        }
        let default = placeholders::Policy::default();
        if run.policy.limits != default.limits {
            spec["limits"] = without_nulls(&run.policy.limits)?;
        }
        if run.policy.behavior != default.behavior {
            spec["behavior"] = without_nulls(&run.policy.behavior)?;
        }
        if !run.tiers.is_empty() {
            spec["workloads"]["tiers"] = without_nulls(&run.tiers)?;
        }
        let tick = self.tick.unwrap_or(run.tick);
        if tick != SimulationSettings::default().tick {
            spec["tick"] = tick.to_string().into();
        }
        Some(json!({
            "apiVersion": "prophet.dev/v1alpha1",
            "kind": "OverprovisioningPolicy",
            "metadata": {"name": "batch", "namespace": "prophet"},
            "spec": spec,
        }))
    }

    /// The field `spec.forecast` of its policy. `None` if no policy of a cluster has it.
    fn forecast(&self) -> Option<Value> {
        match self.policy {
            NamedPolicy::Constant(count) => Some(json!({
                "method": "ladder", "ladder": {"nodesToReplicas": [[0, count]]},
            })),
            NamedPolicy::Burst { period, most } => {
                let half = format!("newNodes(\"{period}\") / 2");
                let expression = most.map_or(half.clone(), |most| format!("min({half}, {most})"));
                Some(json!({"method": "expression", "expression": expression}))
            }
            NamedPolicy::Ladder => Some(json!({"method": "ladder"})),
            // The range of `serviceLevel`.
            NamedPolicy::Forecast(_, Some(level)) if !(0.001..=0.9999).contains(&level) => None,
            NamedPolicy::Forecast(method, _) => Some(json!({"method": method.name()})),
            _ => None,
        }
    }

    /// The options of the autoscaler that it changes, as they are given to cluster-autoscaler.
    pub fn autoscaler_options(&self) -> Option<String> {
        self.scale_down_unneeded_time.map(|time| format!("--scale-down-unneeded-time={time}"))
    }
}

/// A value without the fields that are absent, because the API server drops them.
fn without_nulls(value: &impl Serialize) -> Option<Value> {
    let mut value = serde_json::to_value(value).ok()?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    Some(value)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)?;
        match self.objective {
            Some(Objective::WaitRatio(ratio)) => write!(f, ", wait ratio {}", rounded(ratio))?,
            Some(Objective::WaitCost(dollars)) => {
                write!(f, ", wait cost ${}", rounded(dollars))?;
            }
            Some(Objective::Quantile(share)) => write!(f, ", level {share}")?,
            None => {}
        }
        if let Some(time) = self.scale_down_unneeded_time {
            write!(f, ", unneeded {time}")?;
        }
        self.tick.map_or(Ok(()), |tick| write!(f, ", tick {tick}"))
    }
}

/// A number to four significant digits, because the thirds of prices have many.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(policy: &str) -> Setting {
        Setting::of(policy.parse().unwrap())
    }

    #[test]
    fn one_option_is_varied_at_a_time() {
        let varied = Varied {
            objectives: vec![Objective::WaitRatio(3.0)],
            scale_down_unneeded_times: vec!["5m".parse().unwrap()],
            ticks: vec!["30s".parse().unwrap()],
        };
        let policies = ["ensemble", "reactive", "constant:2"].map(|name| name.parse().unwrap());
        let names: Vec<String> =
            Setting::all(&policies, &varied).iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "reactive",
                "ensemble",
                "constant:2",
                "ensemble, wait ratio 3",
                "reactive, unneeded 5m",
                "ensemble, unneeded 5m",
                "ensemble, tick 30s",
            ]
        );
    }

    #[test]
    fn a_setting_is_a_policy_of_a_cluster_or_a_reference() {
        let run = SimulationSettings::default();
        let spec = |policy: &str| {
            setting(policy).policy_of_cluster(&run).map(|policy| policy["spec"].clone())
        };
        let table = [
            (
                "ensemble",
                json!({"forecast": {"method": "ensemble"}, "objective": {"waitRatio": 9.0}}),
            ),
            (
                "ensemble:0.9",
                json!({"forecast": {"method": "ensemble"}, "objective": {"serviceLevel": 90.0}}),
            ),
            (
                "constant:4",
                json!({"forecast": {"method": "ladder", "ladder": {"nodesToReplicas": [[0, 4]]}}}),
            ),
            (
                "burst:10m:4",
                json!({"forecast": {"method": "expression",
                    "expression": "min(newNodes(\"10m\") / 2, 4)"}}),
            ),
        ];
        for (policy, mut expected) in table {
            expected["mode"] = "Observe".into();
            assert_eq!(spec(policy), Some(expected), "{policy}");
        }
        for reference in ["oracle", "by-hour:4", "paper", "best-constant", "ensemble:0.99999"] {
            assert_eq!(spec(reference), None);
            assert!(!setting(reference).is_for_clusters(), "{reference}");
        }
        assert!(setting("reactive").is_for_clusters());
    }
}
