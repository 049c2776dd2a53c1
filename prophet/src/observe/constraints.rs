//! The nodes on which a pod may run: node selector, required node affinity, tolerations.
//!
//! Preferred affinity, pod affinity and anti-affinity, topology spread, volumes and host ports are
//! not evaluated. A term with `matchFields` never holds, because a pod that names its node is no
//! demand for another node.

use std::collections::BTreeMap;

use super::objects::Taint;
use super::objects::{FlavorSpec, NodeSelectorTerm, PodSpec, Requirement, Toleration};

/// The constraints of a pod on the labels and taints of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    selector: BTreeMap<String, String>,
    /// Terms of which one must hold; `None` if the pod has no required node affinity.
    terms: Option<Vec<NodeSelectorTerm>>,
    tolerations: Vec<Toleration>,
}

impl Constraints {
    /// Returns the constraints of a pod.
    pub fn of(spec: &PodSpec) -> Self {
        let mut tolerations = spec.tolerations.clone();
        tolerations.sort();
        let required = spec.affinity.node_affinity.required.as_ref();
        Self {
            selector: spec.node_selector.clone(),
            terms: required.map(|selector| selector.node_selector_terms.clone()),
            tolerations,
        }
    }

    /// Returns the constraints of a DaemonSet's pods.
    ///
    /// The DaemonSet controller adds tolerations of the taints that Kubernetes puts on nodes, so
    /// the constraints tolerate every taint whose key begins with `node.kubernetes.io/`.
    pub fn of_daemon(spec: &PodSpec) -> Self {
        let mut constraints = Self::of(spec);
        constraints.tolerations.push(Toleration {
            key: Some("node.kubernetes.io/".into()),
            operator: Some(PREFIX.into()),
            ..Toleration::default()
        });
        constraints
    }

    /// Adds the constraints that a flavor of Kueue adds to its pods.
    pub fn add_flavor(&mut self, FlavorSpec { node_labels, tolerations }: &FlavorSpec) {
        let labels = node_labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.selector.extend(labels);
        self.tolerations.extend(tolerations.iter().cloned());
        self.tolerations.sort();
        self.tolerations.dedup();
    }

    /// Iterates over the keys of the labels that decide on which nodes the pod may run.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        let terms = self.terms.iter().flatten().flat_map(|term| &term.match_expressions);
        let of_terms = terms.map(|requirement| requirement.key.as_str());
        self.selector.keys().map(String::as_str).chain(of_terms)
    }

    /// Whether the pod selects nodes with this label by its node selector, or by a term of its
    /// required node affinity that lists the value.
    pub fn selects(&self, key: &str, value: &str) -> bool {
        let mut terms = self.terms.iter().flatten().flat_map(|term| &term.match_expressions);
        self.selector.get(key).is_some_and(|selected| selected == value)
            || terms.any(|Requirement { key: of, operator, values }| {
                of == key && operator == "In" && values.iter().any(|listed| listed == value)
            })
    }

    /// Whether the pod has a toleration of this key. A toleration without a key tolerates every
    /// taint and does not count.
    pub fn names_toleration(&self, key: &str) -> bool {
        self.tolerations.iter().any(|toleration| toleration.key.as_deref() == Some(key))
    }

    /// Whether a pod with these constraints may run on a node with these labels and taints.
    pub fn admit(&self, labels: &BTreeMap<String, String>, taints: &[Taint]) -> bool {
        let Self { selector, terms, tolerations } = self;
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && terms.as_ref().is_none_or(|terms| terms.iter().any(|term| holds(term, labels)))
            && taints.iter().all(|taint| {
                taint.effect == "PreferNoSchedule"
                    || tolerations.iter().any(|t| tolerates(t, taint))
            })
    }

    /// Whether a pod with these constraints could run on a node that has these labels, further
    /// labels that are unknown, and unknown taints.
    pub fn could_admit(&self, labels: &BTreeMap<String, String>) -> bool {
        let Self { selector, terms, .. } = self;
        let could = |requirement: &Requirement| {
            !labels.contains_key(&requirement.key) || meets(requirement, labels)
        };
        let could_hold = |term: &NodeSelectorTerm| {
            term.match_fields.is_empty()
                && !term.match_expressions.is_empty()
                && term.match_expressions.iter().all(could)
        };
        selector.iter().all(|(key, value)| labels.get(key).is_none_or(|label| label == value))
            && terms.as_ref().is_none_or(|terms| terms.iter().any(could_hold))
    }
}

/// An operator that Kubernetes does not have: it matches every taint whose key begins with the
/// given key.
const PREFIX: &str = "Prefix";

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let Toleration { key, operator, value, effect } = toleration;
    let (key, operator) = (key.as_deref().unwrap_or(""), operator.as_deref().unwrap_or("Equal"));
    if !effect.as_deref().unwrap_or("").is_empty() && effect.as_deref() != Some(&taint.effect) {
        return false;
    }
    match operator {
        PREFIX => taint.key.starts_with(key),
        "Exists" => key.is_empty() || key == taint.key,
        "Equal" => key == taint.key && value.as_deref().unwrap_or("") == taint.value,
        "Lt" | "Gt" => {
            key == taint.key && compares(&taint.value, operator, value.as_deref().unwrap_or(""))
        }
        _ => false,
    }
}

/// Whether a term holds. An empty term never holds.
fn holds(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>) -> bool {
    let NodeSelectorTerm { match_expressions, match_fields } = term;
    match_fields.is_empty()
        && !match_expressions.is_empty()
        && match_expressions.iter().all(|requirement| meets(requirement, labels))
}

/// Whether labels meet a requirement.
pub(super) fn meets(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let Requirement { key, operator, values } = requirement;
    let label = labels.get(key);
    match operator.as_str() {
        "In" => label.is_some_and(|label| values.contains(label)),
        "NotIn" => label.is_none_or(|label| !values.contains(label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" | "Lt" => {
            label.zip(values.first()).is_some_and(|(label, value)| compares(label, operator, value))
        }
        _ => false,
    }
}

fn compares(left: &str, operator: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) else { return false };
    if operator == "Gt" { left > right } else { left < right }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a pod against a spot node that has GPUs and their taint.
    #[track_caller]
    fn check(spec: &str, admitted: bool) {
        let labels = [
            ("node.kubernetes.io/instance-type", "g5.xlarge"),
            ("karpenter.sh/capacity-type", "spot"),
            ("cores", "4"),
        ];
        let labels = labels.map(|(key, value)| (key.into(), value.into())).into();
        let taints = [("nvidia.com/gpu", "NoSchedule"), ("busy", "PreferNoSchedule")];
        let taints = taints.map(|(key, effect)| Taint {
            key: key.into(),
            value: "yes".into(),
            effect: effect.into(),
        });
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        assert_eq!(Constraints::of(&spec).admit(&labels, &taints), admitted, "{spec:?}");
    }

    #[test]
    fn unknown_labels_and_taints_could_admit_a_pod() {
        #[track_caller]
        fn check(spec: &str, expected: bool) {
            let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
            let spec: PodSpec = serde_json::from_str(spec).unwrap();
            assert_eq!(Constraints::of(&spec).could_admit(&labels), expected, "{spec:?}");
        }
        check("{}", true);
        check(r#"{"nodeSelector": {"team": "blue"}}"#, true);
        check(r#"{"nodeSelector": {"team": "blue", "zone": "a"}}"#, true);
        check(r#"{"nodeSelector": {"team": "blue", "zone": "b"}}"#, false);
        let terms = |key: &str, operator: &str| {
            format!(
                r#"{{"affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": {{"nodeSelectorTerms": [
                    {{"matchExpressions": [{{"key": "{key}", "operator": "{operator}", "values": ["a"]}}]}}]}}}}}}}}"#
            )
        };
        check(&terms("team", "In"), true);
        check(&terms("zone", "In"), true);
        check(&terms("zone", "NotIn"), false);
    }

    fn with(more: &str) -> String {
        format!(r#"{{"tolerations": [{{"operator": "Exists"}}] {more}}}"#)
    }

    #[test]
    fn taints_must_be_tolerated() {
        check("{}", false);
        check(&with(""), true);
        check(
            r#"{"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}"#,
            true,
        );
        check(
            r#"{"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}]}"#,
            false,
        );
        check(r#"{"tolerations": [{"key": "nvidia.com/gpu", "value": "yes"}]}"#, true);
        check(r#"{"tolerations": [{"key": "nvidia.com/gpu", "value": "no"}]}"#, false);
        check(r#"{"tolerations": [{"key": "nvidia.com/gpu", "operator": "Odd"}]}"#, false);
    }

    #[test]
    fn selectors_and_affinity_must_hold() {
        check(&with(r#", "nodeSelector": {"karpenter.sh/capacity-type": "spot"}"#), true);
        check(&with(r#", "nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}"#), false);
        let affinity = |terms: &str| {
            with(&format!(
                r#", "affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": {{"nodeSelectorTerms": [{terms}]}}}}}}"#
            ))
        };
        let term = |key: &str, operator: &str, values: &str| {
            format!(
                r#"{{"matchExpressions": [{{"key": "{key}", "operator": "{operator}", "values": [{values}]}}]}}"#
            )
        };
        check(&affinity(&term("cores", "In", r#""2", "4""#)), true);
        check(&affinity(&term("cores", "NotIn", r#""2", "4""#)), false);
        check(&affinity(&term("absent", "NotIn", r#""x""#)), true);
        check(&affinity(&term("cores", "Gt", r#""3""#)), true);
        check(&affinity(&term("cores", "Lt", r#""4""#)), false);
        check(&affinity(&term("cores", "Exists", "")), true);
        check(&affinity(&term("cores", "DoesNotExist", "")), false);
        check(
            &affinity(&[term("cores", "In", r#""1""#), term("cores", "Exists", "")].join(", ")),
            true,
        );
        check(&affinity("{}"), false);
        check(&affinity(""), false);
    }
}
