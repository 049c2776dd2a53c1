//! Numbers of a policy that are outside the ranges of its definition. The API server refuses them,
//! unless the policy is older than the range.

use std::fmt::Display;

use crate::crd::bounds::{
    DOLLARS_MAX, LEVEL_MAX, LEVEL_MIN, PLACEHOLDERS_MAX, PRICE_MAX, PRICE_MIN, STEP_MAX,
    TOLERANCE_MAX,
};
use crate::crd::{
    LadderSpec, LimitsSpec, ObjectiveSpec, OverprovisioningPolicySpec, RateSpec, RolloutSpec,
    RulesSpec,
};

/// The numbers outside their range, each with its field path.
pub(super) fn out_of_bounds(spec: &OverprovisioningPolicySpec) -> Vec<String> {
    let mut faults = Vec::new();
    let ObjectiveSpec { service_level, wait_cost, wait_ratio } = spec.objective;
    let level = ("serviceLevel", service_level, LEVEL_MIN, LEVEL_MAX);
    let prices = [("waitCost", wait_cost), ("waitRatio", wait_ratio)];
    let prices = prices.map(|(field, value)| (field, value, PRICE_MIN, PRICE_MAX));
    for (field, value, min, max) in [level].into_iter().chain(prices) {
        check(&mut faults, &format!("objective.{field}"), value, min, max);
    }
    limits(&spec.limits, &mut faults);
    if let Some(RolloutSpec { steps, dollars_per_hour, .. }) = &spec.rollout {
        for (at, step) in steps.iter().enumerate() {
            check(&mut faults, &format!("rollout.steps[{at}]"), Some(*step), 1, 100);
        }
        check(&mut faults, "rollout.dollarsPerHour", *dollars_per_hour, 0.0, DOLLARS_MAX);
    }
    let most = spec.warm_pool.map(|pool| pool.max);
    check(&mut faults, "warmPool.max", most, 0, PLACEHOLDERS_MAX);
    rules("scaleUp", &spec.behavior.scale_up, &mut faults);
    rules("scaleDown", &spec.behavior.scale_down, &mut faults);
    if let Some(LadderSpec { cores_to_replicas, nodes_to_replicas }) = &spec.forecast.ladder {
        steps("coresToReplicas", cores_to_replicas, &mut faults);
        steps("nodesToReplicas", nodes_to_replicas, &mut faults);
    }
    faults
}

fn limits(spec: &LimitsSpec, faults: &mut Vec<String>) {
    let LimitsSpec { placeholders, buckets, dollars_per_hour } = spec;
    check(faults, "limits.placeholders", *placeholders, 0, PLACEHOLDERS_MAX);
    for (name, most) in buckets {
        check(faults, &format!("limits.buckets[{name}]"), Some(*most), 0, PLACEHOLDERS_MAX);
    }
    check(faults, "limits.dollarsPerHour", *dollars_per_hour, 0.0, DOLLARS_MAX);
}

/// The window and the periods are checked with the policy.
fn rules(direction: &str, spec: &RulesSpec, faults: &mut Vec<String>) {
    let RulesSpec { stabilization_window_seconds: _, tolerance, policies } = spec;
    let path = format!("behavior.{direction}");
    check(faults, &format!("{path}.tolerance"), Some(*tolerance), 0.0, TOLERANCE_MAX);
    for (at, RateSpec { value, period_seconds: _ }) in policies.iter().enumerate() {
        check(faults, &format!("{path}.policies[{at}].value"), Some(*value), 1, PLACEHOLDERS_MAX);
    }
}

fn steps(function: &str, pairs: &[[u32; 2]], faults: &mut Vec<String>) {
    for (at, [from, placeholders]) in pairs.iter().enumerate() {
        let path = format!("forecast.ladder.{function}[{at}]");
        check(faults, &format!("{path}[0]"), Some(*from), 0, STEP_MAX);
        check(faults, &format!("{path}[1]"), Some(*placeholders), 0, PLACEHOLDERS_MAX);
    }
}

fn check<N: PartialOrd + Display + Copy>(
    faults: &mut Vec<String>,
    path: &str,
    value: Option<N>,
    min: N,
    max: N,
) {
    if let Some(value) = value.filter(|value| !(*value >= min && *value <= max)) {
        faults.push(format!("spec.{path}: {value} is not in {min} to {max}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Allowed;

    #[track_caller]
    fn check(spec: &Value, expected: &[&str]) {
        let spec: OverprovisioningPolicySpec =
            serde_json::from_value(spec.clone()).expect("a spec");
        assert_eq!(spec.settings(&Allowed::default()).err().unwrap_or_default(), expected);
    }

    #[test]
    fn a_number_outside_its_range_is_one_fault() {
        check(&json!({}), &[]);
        check(
            &json!({"limits": {"placeholders": 100_000, "buckets": {"a": 100_000}, "dollarsPerHour": 1e6}}),
            &[],
        );
        check(
            &json!({"limits": {"placeholders": 100_001, "buckets": {"a": 4_000_000_000_u32}, "dollarsPerHour": 1e300}}),
            &[
                "spec.limits.placeholders: 100001 is not in 0 to 100000",
                "spec.limits.buckets[a]: 4000000000 is not in 0 to 100000",
                &format!("spec.limits.dollarsPerHour: {} is not in 0 to 1000000", 1e300),
            ],
        );
        for (objective, problem) in [
            (json!({"serviceLevel": 100}), "serviceLevel: 100 is not in 0.1 to 99.99"),
            (json!({"waitCost": -1}), "waitCost: -1 is not in 0.000001 to 1000000"),
            (json!({"waitRatio": 0}), "waitRatio: 0 is not in 0.000001 to 1000000"),
        ] {
            check(&json!({"objective": objective}), &[&format!("spec.objective.{problem}")]);
        }
        check(
            &json!({"behavior": {"scaleDown": {
                "tolerance": 1, "policies": [{"value": 0, "periodSeconds": 60}],
            }}}),
            &[
                "spec.behavior.scaleDown.tolerance: 1 is not in 0 to 0.99",
                "spec.behavior.scaleDown.policies[0].value: 0 is not in 1 to 100000",
            ],
        );
        check(
            &json!({"forecast": {"ladder": {"nodesToReplicas": [[0, 1], [4_000_000_000_u32, 100_001]]}}}),
            &[
                "spec.forecast.ladder.nodesToReplicas[1][0]: 4000000000 is not in 0 to 10000000",
                "spec.forecast.ladder.nodesToReplicas[1][1]: 100001 is not in 0 to 100000",
            ],
        );
    }

    #[test]
    fn the_steps_of_a_rollout_ascend_and_fit_into_memory() {
        check(&json!({"rollout": {}}), &[]);
        check(
            &json!({"rollout": {"steps": [100], "stepDuration": "7d", "controlDays": true}}),
            &[],
        );
        let order = "spec.rollout.steps: expected percentages, each higher than the one before, such as [25, 50, 100]";
        for steps in [json!([]), json!([50, 50]), json!([50, 25])] {
            check(&json!({"rollout": {"steps": steps}}), &[order]);
        }
        check(
            &json!({"rollout": {"steps": [0, 101], "dollarsPerHour": -1}}),
            &[
                "spec.rollout.steps[0]: 0 is not in 1 to 100",
                "spec.rollout.steps[1]: 101 is not in 1 to 100",
                "spec.rollout.dollarsPerHour: -1 is not in 0 to 1000000",
            ],
        );
        check(
            &json!({"rollout": {"controlDays": true}}),
            &[
                "spec.rollout.stepDuration: expected at least 4d with controlDays, so that several days can be compared, got \"24h\"",
            ],
        );
        for duration in ["30s", "8d", "soon"] {
            check(
                &json!({"rollout": {"stepDuration": duration}}),
                &[&format!(
                    "spec.rollout.stepDuration: expected 1 to 10080 ticks of 1m, got {duration:?}"
                )],
            );
        }
    }

    /// The paths of the numbers below a schema that lack a bound.
    fn unbounded(path: &str, schema: &Value, found: &mut Vec<String>) {
        let is_number = schema["type"] == "integer" || schema["type"] == "number";
        if is_number && (schema["minimum"].is_null() || schema["maximum"].is_null()) {
            found.push(path.to_owned());
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            unbounded(&format!("{path}.{name}"), inner, found);
        }
        for inner in ["items", "additionalProperties"].map(|name| &schema[name]) {
            if inner.is_object() {
                unbounded(&format!("{path}[]"), inner, found);
            }
        }
    }

    #[test]
    fn every_number_of_a_spec_has_bounds_in_the_schema() {
        let definition = crate::crd::definition().expect("JSON");
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = &schema["properties"]["spec"];
        assert!(spec["properties"]["limits"].is_object(), "{schema}");
        let mut found = Vec::new();
        unbounded("spec", spec, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
