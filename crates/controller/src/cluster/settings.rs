//! Converts a policy into the settings of the stages. Checks it once, each fault with its field
//! path.

use std::collections::BTreeSet;

use base::pattern::matches;
use base::span::Span;
use base::tier::{Tier, Tiers};
use demand::forecast::{Expression, Ladder, Method};
use demand::record::TICKS_MAX;
use embedder::CapacityType;
use placeholders::{
    Behavior, Ceiling, Direction, InvalidField, LimitShare, Limits, Objective, OuterLimits, Policy,
    PolicyField, ScalingPolicy, ScalingRules,
};

use super::bounds::out_of_bounds;
use crate::catalog::{NodeGroup, spot_labels};
use crate::crd::{
    Capacity, ForecastSpec, LadderSpec, Mode, ObjectiveSpec, OverprovisioningPolicySpec,
    PAUSE_IMAGE, PlaceholderKind, PlaceholdersSpec, RateSpec, RolloutSpec, RulesSpec, Selector,
    SelectorOperator, SelectorRequirement, SpotForSpec, TierSpec, WarmData, WarmPoolSpec,
    WorkloadsSpec,
};
use crate::observe::{Requirement, SpotFor, Workloads, all_met};
use crate::rollout::Rollout;

/// The fault of a policy that could buy without a limit.
const NO_LIMIT: &str = "spec.limits: a policy in the mode Act needs a limit. Set placeholders or \
                        dollarsPerHour here, or start the controller with --max-placeholders or \
                        --max-dollars-per-hour";

/// The share of the limits for one namespace, if the policy does not set it.
const NAMESPACE_SHARE: f64 = 0.5;

/// A policy's settings, in the types of the stages.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySettings {
    /// Whether the policy holds placeholders, or only reports.
    pub mode: Mode,
    /// The pods that are batch demand.
    pub workloads: Workloads,
    /// The buckets that get placeholders.
    pub buckets: BucketSelection,
    /// The objective, the limits and the scaling behavior.
    pub policy: Policy,
    /// Seconds between ticks.
    pub tick_seconds: i64,
    /// The forecasting method.
    pub method: Method,
    /// The steps of the method `ladder`.
    pub ladder: Ladder,
    /// Whether the policy sets the steps, so that the ensemble starts with them.
    pub ladder_first: bool,
    /// The expression of the method `expression`.
    pub expression: Option<Expression>,
    /// How the policy begins to act. `None` if all placeholders stand at once.
    pub rollout: Option<Rollout>,
    /// The kind, image and warming of placeholders.
    pub placeholders: PlaceholdersSpec,
    /// The warm pools. `None` if the pools of groups are left alone.
    pub warm_pool: Option<WarmPoolSpec>,
}

/// The groups of nodes that a policy selects. An empty list selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketSelection {
    /// The selected instance types.
    pub instance_types: Vec<String>,
    /// The selected capacity types.
    pub capacity_types: Vec<CapacityType>,
    /// The selected groups by name, where `*` stands for any characters.
    pub groups: Vec<String>,
    /// The requirements on the labels of the groups' nodes.
    pub selector: Vec<Requirement>,
}

impl BucketSelection {
    /// The group with those of the types of its size class that are selected and that `allowed`
    /// permits. `None` if there is none. A group of no size class stays as it is.
    pub fn narrow(&self, group: NodeGroup, allowed: &Allowed) -> Option<NodeGroup> {
        if group.size_class.is_none() {
            return Some(group);
        }
        let selects =
            |name: &String| self.instance_types.is_empty() || self.instance_types.contains(name);
        group.with_types(|name| selects(name) && allowed.allows_type(name))
    }

    /// Whether a group is selected.
    pub fn select(&self, group: &NodeGroup) -> bool {
        let Self { instance_types, capacity_types, groups, selector } = self;
        (instance_types.is_empty() || instance_types.contains(&group.instance_type))
            && (capacity_types.is_empty() || capacity_types.contains(&group.capacity_type))
            && (groups.is_empty() || groups.iter().any(|pattern| matches(pattern, &group.name)))
            && all_met(selector, &group.labels)
    }
}

/// The operator's settings that apply to the specification of every policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The prefix below which host paths of data warming must lie. When absent, no host path is
    /// allowed.
    pub host_path_prefix: Option<String>,
    /// The schedulers whose pods preempt placeholders, beyond the default scheduler.
    pub preempting_schedulers: BTreeSet<String>,
    /// The instance types that policies may use, where `*` stands for any characters. All if
    /// empty.
    pub instance_types: Vec<String>,
    /// The most placeholders of all policies together, and the most dollars per hour.
    pub ceiling: Ceiling,
    /// Whether a policy in the mode `Act` needs a limit, its own or that of the operator.
    pub needs_limit: bool,
    /// The highest value of a PriorityClass of placeholders.
    pub placeholder_priority_max: i32,
    /// The image of the placeholders of policies that have the default image.
    pub placeholder_image: Option<String>,
}

impl Allowed {
    /// Whether a scheduler preempts placeholders. `None` is the default scheduler.
    pub fn preempts(&self, scheduler: Option<&str>) -> bool {
        scheduler.is_none_or(|name| self.preempting_schedulers.contains(name))
    }

    /// The image of the placeholders of a policy that names `image`. The API server writes the
    /// default image into each policy that names none.
    fn image<'a>(&'a self, image: &'a str) -> &'a str {
        let own = self.placeholder_image.as_deref().filter(|_| image == PAUSE_IMAGE);
        own.unwrap_or(image)
    }

    /// Whether policies may use a group: all of its instance types are allowed.
    pub fn allow(&self, group: &NodeGroup) -> bool {
        group.instance_types().all(|name| self.allows_type(name))
    }

    /// Whether policies may use an instance type.
    fn allows_type(&self, name: &str) -> bool {
        let patterns = &self.instance_types;
        patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
    }
}

/// The fewest days of a step with control days.
const CONTROL_DAYS_MIN: i64 = 4;

/// The lowest priority of a workload, unless the policy sets one: 0, because placeholders have
/// negative priorities and only pods of a higher priority preempt them.
const WORKLOAD_PRIORITY_MIN: i32 = 0;

impl OverprovisioningPolicySpec {
    /// Seconds between ticks; 0 if the field is invalid.
    pub fn tick_seconds(&self) -> i64 {
        self.tick.parse::<Span>().map_or(0, Span::as_seconds)
    }

    /// Converts the policy into the settings of the stages.
    ///
    /// # Errors
    /// All faults, each with its field path. The rules that the CRD's schema enforces at admission
    /// are checked here, too.
    pub fn settings(&self, allowed: &Allowed) -> Result<PolicySettings, Vec<String>> {
        let Self {
            mode,
            workloads,
            buckets,
            objective,
            tick,
            forecast,
            limits,
            behavior,
            rollout,
            placeholders,
            warm_pool,
            unreadable,
        } = self;
        if !unreadable.is_empty() {
            return Err(unreadable.clone());
        }
        let mut faults = out_of_bounds(self);
        let tick_seconds = self.tick_seconds();
        if !(10..=3_600).contains(&tick_seconds) {
            faults.push(format!("spec.tick: expected 10s to 1h, got {tick:?}"));
        }
        let share = workloads.namespace_share.unwrap_or(NAMESPACE_SHARE);
        let learns =
            !matches!(forecast.method, Method::Ladder | Method::Expression | Method::Scheduled);
        let policy = Policy {
            objective: objective.objective(&mut faults),
            limits: Limits {
                total: limits.placeholders.map(u64::from),
                buckets: limits
                    .buckets
                    .iter()
                    .map(|(name, &most)| (name.clone(), most.into()))
                    .collect(),
                dollars_per_hour: limits.dollars_per_hour,
                ..Limits::default()
            },
            behavior: Behavior {
                scale_up: behavior.scale_up.rules(),
                scale_down: behavior.scale_down.rules(),
            },
            namespace_share: learns.then_some(share),
        };
        for InvalidField { field, problem } in policy.faults() {
            let path = format!("spec.{}: ", crd_path(field));
            if !faults.iter().any(|fault| fault.starts_with(&path)) {
                faults.push(path + &problem);
            }
        }
        let is_limited = !allowed.needs_limit
            || limits.placeholders.is_some()
            || limits.dollars_per_hour.is_some()
            || allowed.ceiling != Ceiling::default();
        if *mode == Mode::Act && !is_limited {
            faults.push(NO_LIMIT.into());
        }
        let rollout = rollout.as_ref().map(|spec| spec.rollout(tick_seconds, &mut faults));
        placeholders.faults(allowed, &mut faults);
        let expression = forecast.expression(&mut faults);
        let spot_for = spot_for(buckets.spot_for.as_ref(), &mut faults);
        let outer = OuterLimits { operator: allowed.ceiling, ..OuterLimits::default() };
        let announced_most = Limits { outer, ..policy.limits.clone() }.share(share);
        let workloads = workloads.workloads(allowed, spot_for, announced_most, &mut faults);
        let node_labels = buckets.selector.requirements("spec.buckets.selector", &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let capacity_types = buckets.capacity_types.iter().map(|capacity| match capacity {
            Capacity::OnDemand => CapacityType::OnDemand,
            Capacity::Spot => CapacityType::Spot,
        });
        Ok(PolicySettings {
            mode: *mode,
            workloads,
            buckets: BucketSelection {
                instance_types: buckets.instance_types.clone(),
                capacity_types: capacity_types.collect(),
                groups: buckets.groups.clone(),
                selector: node_labels,
            },
            policy,
            tick_seconds,
            method: forecast.method,
            ladder_first: forecast.ladder.is_some(),
            ladder: forecast.ladder.as_ref().map_or_else(Ladder::default, LadderSpec::ladder),
            expression,
            rollout,
            placeholders: PlaceholdersSpec {
                image: allowed.image(&placeholders.image).to_owned(),
                ..placeholders.clone()
            },
            warm_pool: *warm_pool,
        })
    }
}

/// The path of a field of [`Policy`] in the CRD, below `spec`.
fn crd_path(field: PolicyField) -> String {
    let rules = |direction| match direction {
        Direction::Up => "behavior.scaleUp",
        Direction::Down => "behavior.scaleDown",
    };
    match field {
        PolicyField::Quantile => "objective.serviceLevel".into(),
        PolicyField::WaitCost => "objective.waitCost".into(),
        PolicyField::WaitRatio => "objective.waitRatio".into(),
        PolicyField::SpendCap => "limits.dollarsPerHour".into(),
        PolicyField::Window(of) => format!("{}.stabilizationWindowSeconds", rules(of)),
        PolicyField::Tolerance(of) => format!("{}.tolerance", rules(of)),
        PolicyField::Period(of, at) => format!("{}.policies[{at}].periodSeconds", rules(of)),
    }
}

impl ObjectiveSpec {
    fn objective(self, faults: &mut Vec<String>) -> Objective {
        match (self.service_level, self.wait_cost, self.wait_ratio) {
            (None, None, None) => Objective::default(),
            (Some(level), None, None) => Objective::Quantile(level / 100.0),
            (None, Some(cost), None) => Objective::WaitCost(cost),
            (None, None, Some(ratio)) => Objective::WaitRatio(ratio),
            _ => {
                faults.push(
                    "spec.objective: set only one of serviceLevel, waitCost and waitRatio".into(),
                );
                Objective::default()
            }
        }
    }
}

impl ForecastSpec {
    /// The expression of the method `expression`. `None` for other methods.
    fn expression(&self, faults: &mut Vec<String>) -> Option<Expression> {
        let Self { method, ladder: _, expression } = self;
        match (method, expression) {
            (Method::Expression, Some(text)) => {
                let fault = |problem| faults.push(format!("spec.forecast.expression: {problem}"));
                text.parse().map_err(fault).ok()
            }
            (Method::Expression, None) => {
                faults.push("spec.forecast.expression: the method expression needs one, such as \"forecast + 1\"".into());
                None
            }
            _ => None,
        }
    }
}

impl LadderSpec {
    fn ladder(&self) -> Ladder {
        let steps = |pairs: &[[u32; 2]]| {
            pairs.iter().map(|&[from, replicas]| (from.into(), replicas.into())).collect()
        };
        Ladder {
            cores_to_replicas: steps(&self.cores_to_replicas),
            nodes_to_replicas: steps(&self.nodes_to_replicas),
        }
    }
}

impl RolloutSpec {
    fn rollout(&self, tick_seconds: i64, faults: &mut Vec<String>) -> Rollout {
        let Self { steps, step_duration, dollars_per_hour, control_days } = self;
        if steps.is_empty() || !steps.is_sorted_by(|a, b| a < b) {
            faults.push("spec.rollout.steps: expected percentages, each higher than the one before, such as [25, 50, 100]".into());
        }
        let step_seconds = step_duration.parse::<Span>().map_or(0, Span::as_seconds);
        // A step and the time before it, with which it is compared, must be in memory.
        let ticks_max = i64::try_from(TICKS_MAX / 2).unwrap_or(i64::MAX);
        if !(tick_seconds..=ticks_max.saturating_mul(tick_seconds)).contains(&step_seconds) {
            faults.push(format!(
                "spec.rollout.stepDuration: expected 1 to {ticks_max} ticks of {}, got {step_duration:?}",
                Span::seconds(u32::try_from(tick_seconds).unwrap_or(0))
            ));
        }
        if *control_days && step_seconds < CONTROL_DAYS_MIN * 86_400 {
            faults.push(format!(
                "spec.rollout.stepDuration: expected at least {CONTROL_DAYS_MIN}d with controlDays, so that several days can be compared, got {step_duration:?}"
            ));
        }
        Rollout {
            steps: steps.clone(),
            step_seconds,
            spend_cap: *dollars_per_hour,
            control_days: *control_days,
        }
    }
}

impl RulesSpec {
    fn rules(&self) -> ScalingRules {
        let Self { stabilization_window_seconds, tolerance, policies } = self;
        let rates = policies.iter().map(|&RateSpec { value, period_seconds }| ScalingPolicy {
            value: value.into(),
            period_seconds,
        });
        ScalingRules {
            stabilization_window_seconds: *stabilization_window_seconds,
            tolerance: *tolerance,
            policies: rates.collect(),
        }
    }
}

/// The pods that tolerate interruption. By default, they are those that select spot nodes.
fn spot_for(spec: Option<&SpotForSpec>, faults: &mut Vec<String>) -> SpotFor {
    let Some(SpotForSpec { tolerations, node_selector, selector }) = spec else {
        let labels = spot_labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
        return SpotFor { node_labels: labels.collect(), ..SpotFor::default() };
    };
    if let Some(at) = tolerations.iter().position(String::is_empty) {
        faults.push(format!(
            "spec.buckets.spotFor.tolerations[{at}]: is empty; give the key of a taint"
        ));
    }
    let node_labels = node_selector.iter().map(|(key, value)| (key.clone(), value.clone()));
    let selector = selector.as_ref();
    SpotFor {
        tolerations: tolerations.clone(),
        node_labels: node_labels.collect(),
        selector: selector
            .map(|selector| selector.requirements("spec.buckets.spotFor.selector", faults)),
    }
}

/// The tiers of a policy, checked.
fn tiers(specs: &[TierSpec], faults: &mut Vec<String>) -> Tiers {
    let tier = |TierSpec { name, priority_min, weight }: &TierSpec| Tier {
        name: name.clone(),
        priority_min: *priority_min,
        weight: *weight,
    };
    let tiers = Tiers::from(specs.iter().map(tier).collect::<Vec<_>>());
    for ((at, field), problem) in tiers.faults() {
        faults.push(format!("spec.workloads.tiers[{at}].{field}: {problem}"));
    }
    tiers
}

impl WorkloadsSpec {
    fn workloads(
        &self,
        allowed: &Allowed,
        spot_for: SpotFor,
        announced_most: LimitShare,
        faults: &mut Vec<String>,
    ) -> Workloads {
        let Self {
            namespaces,
            selector,
            priority,
            tiers,
            released_gates,
            released_jobs,
            gang_jobs,
            // It is read with the limits.
            namespace_share: _,
            certain_plans,
            volumes_in_any_zone,
        } = self;
        let (min, max) =
            (priority.min.unwrap_or(WORKLOAD_PRIORITY_MIN), priority.max.unwrap_or(i32::MAX));
        if min > max {
            faults.push(format!("spec.workloads.priority: min {min} is above max {max}"));
        }
        Workloads {
            namespaces: namespaces.clone(),
            selector: selector.requirements("spec.workloads.selector", faults),
            priority_min: min,
            priority_max: max,
            tiers: self::tiers(tiers, faults),
            volumes_in_any_zone: *volumes_in_any_zone,
            preempting_schedulers: allowed.preempting_schedulers.clone(),
            released_gates: released_gates.clone(),
            released_jobs: released_jobs
                .as_ref()
                .map(|selector| selector.requirements("spec.workloads.releasedJobs", faults)),
            gang_jobs: gang_jobs
                .as_ref()
                .map(|selector| selector.requirements("spec.workloads.gangJobs", faults)),
            spot_for,
            certain_plans: *certain_plans,
            announced_most: Some(announced_most),
        }
    }
}

impl Selector {
    fn requirements(&self, path: &str, faults: &mut Vec<String>) -> Vec<Requirement> {
        let Self { match_labels, match_expressions } = self;
        let labels = match_labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: "In".into(),
            values: vec![value.clone()],
        });
        for (at, SelectorRequirement { operator, values, .. }) in
            match_expressions.iter().enumerate()
        {
            let takes_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
            if takes_values == values.is_empty() {
                faults.push(format!(
                    "{path}.matchExpressions[{at}].values: In and NotIn require values, Exists and DoesNotExist allow none"
                ));
            }
        }
        let expressions =
            match_expressions.iter().map(|SelectorRequirement { key, operator, values }| {
                Requirement {
                    key: key.clone(),
                    operator: format!("{operator:?}"),
                    values: values.clone(),
                }
            });
        labels.chain(expressions).collect()
    }
}

impl PlaceholdersSpec {
    fn faults(&self, allowed: &Allowed, faults: &mut Vec<String>) {
        if self.image.is_empty() {
            faults.push("spec.placeholders.image: is empty".into());
        }
        let warmed =
            [("Images", !self.warm_images.is_empty()), ("Data", !self.warm_data.is_empty())];
        for (field, _) in warmed.iter().filter(|(_, given)| *given) {
            if self.kind == PlaceholderKind::CapacityBuffer {
                faults.push(format!("spec.placeholders.warm{field}: a CapacityBuffer has no pods that load anything onto a node: remove the field, or set spec.placeholders.kind to ReplicaSet"));
            }
        }
        for (at, WarmData { host_path, command, marker, .. }) in self.warm_data.iter().enumerate() {
            let path = format!("spec.placeholders.warmData[{at}]");
            let prefix = allowed.host_path_prefix.as_deref();
            if !prefix.is_some_and(|prefix| is_folder_in(host_path, prefix)) {
                let allowed = prefix
                    .map_or("one that the operator allows: there is none".into(), |prefix| {
                        format!("a folder directly in {prefix}")
                    });
                faults.push(format!("{path}.hostPath: {host_path} is not {allowed}"));
            }
            if command.is_empty() {
                faults.push(format!("{path}.command: is empty"));
            }
            if marker.is_empty() || marker.contains('/') {
                faults.push(format!("{path}.marker: {marker:?} is not the name of a file"));
            }
        }
    }
}

/// Whether a path is that of a folder directly in `prefix`. A command that warms data may replace
/// what is in its own folder by symbolic links to any other. So no path leads through a folder of
/// another command, and none is the prefix, where those folders themselves are.
fn is_folder_in(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'));
    let name = rest.and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| !matches!(name, "" | "." | "..") && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use embedder::Resources;

    use super::*;
    use crate::catalog::OtherTypes;

    /// A CapacityBuffer has virtual pods, which run no container.
    #[test]
    fn a_capacity_buffer_refuses_warming() {
        let allowed = Allowed { host_path_prefix: Some("/data".into()), ..Allowed::default() };
        let faults = |placeholders: serde_json::Value| {
            let spec = serde_json::json!({"placeholders": placeholders});
            let spec: OverprovisioningPolicySpec = serde_json::from_value(spec).unwrap();
            spec.settings(&allowed).err().unwrap_or_default()
        };
        let images = serde_json::json!([{"image": "torch:2"}]);
        let data = serde_json::json!([{"name": "d", "image": "busybox", "command": ["true"],
            "hostPath": "/data/d", "marker": ".done"}]);
        assert!(faults(serde_json::json!({"warmImages": images, "warmData": data})).is_empty());
        let why = "a CapacityBuffer has no pods that load anything onto a node: remove the field, or set spec.placeholders.kind to ReplicaSet";
        assert_eq!(
            faults(serde_json::json!({
                "kind": "CapacityBuffer", "warmImages": images, "warmData": data
            })),
            ["warmImages", "warmData"].map(|field| format!("spec.placeholders.{field}: {why}"))
        );
    }

    /// The spot group `batch-a` of m5.xlarge, whose nodes have the label `team=a`.
    fn group() -> NodeGroup {
        NodeGroup {
            capacity_type: CapacityType::Spot,
            labels: [("team".to_owned(), "a".to_owned())].into(),
            ..NodeGroup::of_type("batch-a", "m5.xlarge", Resources::UNLIMITED)
        }
    }

    /// Checks whether a policy with this field in `spec.buckets` selects [`group`].
    #[track_caller]
    fn check_selected(buckets: &serde_json::Value, expected: bool) {
        let spec = serde_json::json!({ "buckets": buckets });
        let spec: OverprovisioningPolicySpec = serde_json::from_value(spec).unwrap();
        let settings = spec.settings(&Allowed::default()).unwrap();
        assert_eq!(settings.buckets.select(&group()), expected, "{buckets}");
    }

    #[test]
    fn a_policy_selects_groups_that_meet_all_fields() {
        use serde_json::json;
        check_selected(&json!({}), true);
        check_selected(&json!({"instanceTypes": ["m5.large", "m5.xlarge"]}), true);
        check_selected(&json!({"instanceTypes": ["m5.large"]}), false);
        check_selected(&json!({"capacityTypes": ["spot"]}), true);
        check_selected(&json!({"capacityTypes": ["on-demand"]}), false);
        check_selected(&json!({"groups": ["web-*", "batch-*"]}), true);
        check_selected(&json!({"groups": ["batch"]}), false);
        check_selected(&serde_json::json!({"selector": {"matchLabels": {"team": "a"}}}), true);
        let other = serde_json::json!([{"key": "team", "operator": "NotIn", "values": ["a"]}]);
        check_selected(&serde_json::json!({"selector": {"matchExpressions": other}}), false);
        check_selected(
            &serde_json::json!({"groups": ["batch-*"], "instanceTypes": ["m5.large"]}),
            false,
        );
    }

    #[test]
    fn the_operator_gives_the_image_of_placeholders_that_have_the_default_one() {
        let image = |own: Option<&str>, spec: serde_json::Value| {
            let spec: OverprovisioningPolicySpec = serde_json::from_value(spec).unwrap();
            let allowed = Allowed { placeholder_image: own.map(Into::into), ..Allowed::default() };
            spec.settings(&allowed).unwrap().placeholders.image
        };
        let named = serde_json::json!({"placeholders": {"image": "c.d/idle:1"}});
        let stored = serde_json::json!({"placeholders": {"image": PAUSE_IMAGE}});
        assert_eq!(image(None, serde_json::json!({})), PAUSE_IMAGE);
        assert_eq!(image(Some("a.b/pause:1"), serde_json::json!({})), "a.b/pause:1");
        assert_eq!(image(Some("a.b/pause:1"), stored), "a.b/pause:1");
        assert_eq!(image(Some("a.b/pause:1"), named), "c.d/idle:1");
    }

    #[test]
    fn the_operator_allows_a_group_only_if_all_its_types_are_allowed() {
        let allow = |patterns: &[&str], others: &[&str]| {
            let others = others.iter().map(ToString::to_string).collect();
            let group = NodeGroup { other_types: OtherTypes::SameSize(others), ..group() };
            let instance_types = patterns.iter().map(ToString::to_string).collect();
            Allowed { instance_types, ..Allowed::default() }.allow(&group)
        };
        assert!(allow(&[], &["m5a.xlarge"]));
        assert!(allow(&["m5*"], &["m5a.xlarge"]));
        assert!(!allow(&["m5.*"], &["m5a.xlarge"]));
        assert!(!allow(&["m5a.*"], &["m5a.xlarge"]));
    }
}
