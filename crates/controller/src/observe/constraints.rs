//! The nodes on which a pod may run: node selector, required node affinity, tolerations.
//!
//! Preferred affinity, pod affinity and anti-affinity, topology spread, volumes and host ports are
//! not evaluated. A term with `matchFields` never holds, because a pod that names its node is no
//! demand for another node.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Taint;
use super::objects::{
    FlavorSpec, NodeSelector, NodeSelectorTerm, PodSpec, Requirement, Toleration,
};

/// The constraints of a pod on the labels and taints of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    selector: BTreeMap<String, String>,
    /// Terms of which one must hold; `None` if the pod has no required node affinity.
    terms: Option<Vec<NodeSelectorTerm>>,
    tolerations: Vec<Toleration>,
}

/// The most bytes of the texts in the constraints of a pod that are kept: 8 KiB. Without a limit, a
/// few hundred pods with a large node affinity would use up the memory of the controller.
const BYTES_MAX: usize = 8 << 10;

impl Constraints {
    /// Returns the constraints of a pod. Constraints of more than [`BYTES_MAX`] are replaced by
    /// ones that no node meets.
    pub fn of(spec: &PodSpec) -> Self {
        if are_too_large(spec) {
            return Self { terms: Some(Vec::new()), ..Self::default() };
        }
        let mut tolerations = spec.tolerations.clone();
        tolerations.sort();
        let required = spec.affinity.node_affinity.required.as_ref();
        Self {
            selector: spec.node_selector.clone(),
            terms: required.map(|selector| selector.node_selector_terms.clone()),
            tolerations,
        }
    }

    /// Whether constraints stand here for others that are too large. The API server admits no pod
    /// whose list of terms is empty.
    pub fn are_cut(&self) -> bool {
        self.terms.as_ref().is_some_and(Vec::is_empty)
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

    /// The constraints of `other` that these do not have, one text each, besides tolerations that
    /// Kubernetes itself adds to pods.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let selected =
            other.selector.iter().filter(|(key, value)| self.selector.get(*key) != Some(*value));
        let selected = selected.map(|(key, value)| format!("nodeSelector {key}={value}"));
        let lost = self.selector.keys().filter(|key| !other.selector.contains_key(*key));
        let lost = lost.map(|key| format!("nodeSelector without {key}"));
        let of_itself = |toleration: &Toleration| {
            let key = toleration.key.as_deref().unwrap_or_default();
            let exists = toleration.operator.as_deref() == Some("Exists");
            exists && (key.starts_with("node.kubernetes.io/") || is_extended(key))
        };
        let tolerated = other
            .tolerations
            .iter()
            .filter(|toleration| !self.tolerations.contains(toleration) && !of_itself(toleration));
        let tolerated = tolerated.map(|toleration| {
            format!("toleration of {}", toleration.key.as_deref().unwrap_or("all taints"))
        });
        let terms = (self.terms != other.terms).then(|| "required node affinity".to_owned());
        selected.chain(lost).chain(tolerated).chain(terms).collect()
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
        self.admit_any(labels, &BTreeMap::new(), taints)
    }

    /// Whether a pod with these constraints tolerates a taint.
    pub fn tolerate(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }

    /// Whether a pod with these constraints may run on one of the nodes that have these labels and
    /// taints, and of each label in `choices` one of the values that it may have. Labels in
    /// `labels` prevail.
    pub fn admit_any(
        &self,
        labels: &BTreeMap<String, String>,
        choices: &BTreeMap<String, Choice>,
        taints: &[Taint],
    ) -> bool {
        let Self { selector, terms, tolerations } = self;
        let has = |key: &str, value: &String| match labels.get(key) {
            Some(label) => label == value,
            None => choices.get(key).is_some_and(|choice| choice.can_be(value)),
        };
        let met = |requirement: &Requirement| {
            let choice =
                choices.get(&requirement.key).filter(|_| !labels.contains_key(&requirement.key));
            match choice {
                Some(choice) => choice.can_meet(requirement),
                None => meets(requirement, labels),
            }
        };
        let holds = |term: &NodeSelectorTerm| {
            term.match_fields.is_empty()
                && !term.match_expressions.is_empty()
                && term.match_expressions.iter().all(met)
        };
        selector.iter().all(|(key, value)| has(key, value))
            && terms.as_ref().is_none_or(|terms| terms.iter().any(holds))
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

/// Whether the constraints of a pod are larger than [`BYTES_MAX`].
fn are_too_large(spec: &PodSpec) -> bool {
    let required = spec.affinity.node_affinity.required.iter();
    let terms = required.flat_map(|selector| &selector.node_selector_terms);
    let requirements =
        terms.flat_map(|term| term.match_expressions.iter().chain(&term.match_fields));
    let of_requirements = requirements.map(|Requirement { key, operator, values }| {
        size(key) + size(operator) + values.iter().map(size).sum::<usize>()
    });
    let of_selector = spec.node_selector.iter().map(|(key, value)| size(key) + size(value));
    let of_tolerations = spec.tolerations.iter().map(|toleration| {
        let Toleration { key, operator, value, effect } = toleration;
        [key, operator, value, effect].into_iter().flatten().map(size).sum()
    });
    of_requirements.chain(of_selector).chain(of_tolerations).sum::<usize>() > BYTES_MAX
}

/// The bytes of a text, with its place in a list.
fn size(text: impl AsRef<str>) -> usize {
    text.as_ref().len() + size_of::<String>()
}

/// Replaces constraints that are too large, before the specification is stored.
pub(super) fn cut(spec: &mut PodSpec) {
    if are_too_large(spec) {
        spec.affinity.node_affinity.required = Some(NodeSelector::default());
        spec.node_selector.clear();
        spec.tolerations.clear();
    }
}

/// Whether a name is that of an extended resource: it has a domain other than those of Kubernetes.
pub(super) fn is_extended(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    domain.is_some_and(|domain| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
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

/// The values that a label of a new node may have: those that meet all requirements of a pool. The
/// autoscaler gives the node one that the pod selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The values of which it is one. `None` if requirements list none.
    among: Option<BTreeSet<String>>,
    /// The other requirements.
    requirements: Vec<Requirement>,
    /// The values of which the node has any, whichever of them a pod selects. `None` stands for no
    /// such label. Empty if the pod decides.
    any_of: BTreeSet<Option<String>>,
}

/// The operators of the requirements of a pool, besides `In`. A requirement with another operator,
/// of a newer version, restricts nothing.
const OPERATORS: [&str; 7] = ["NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];

impl Choice {
    /// Adds a requirement that the value meets.
    pub(super) fn require(&mut self, requirement: &Requirement) {
        if requirement.operator == "In" {
            let values: BTreeSet<String> = requirement.values.iter().cloned().collect();
            let common = |before: BTreeSet<String>| &before & &values;
            self.among = Some(self.among.take().map_or_else(|| values.clone(), common));
        } else if OPERATORS.contains(&requirement.operator.as_str()) {
            self.requirements.push(requirement.clone());
        }
    }

    /// One of these values: the one that a pod selects.
    pub fn among(values: BTreeSet<String>) -> Self {
        Self { among: Some(values), ..Self::default() }
    }

    /// Any of these values, so that only pods that accept all of them may run on the node. `None`
    /// stands for no such label.
    pub fn any_of(values: BTreeSet<Option<String>>) -> Self {
        Self { any_of: values, ..Self::default() }
    }

    /// Whether a new node may lack the label.
    pub fn allows_none(&self) -> bool {
        self.among.is_none()
            && self.requirements.iter().all(|requirement| value_meets(requirement, None))
    }

    /// The values, ascending, if the requirements list them.
    pub fn values(&self) -> Option<impl Iterator<Item = &String>> {
        let among = self.among.as_ref()?;
        Some(among.iter().filter(|value| self.allows(value)))
    }

    /// Whether the label may have this value.
    pub fn allows(&self, value: &String) -> bool {
        self.among.as_ref().is_none_or(|among| among.contains(value))
            && self.requirements.iter().all(|requirement| value_meets(requirement, Some(value)))
    }

    /// Whether a pod that selects this value may run on the node.
    fn can_be(&self, value: &String) -> bool {
        let only = |any: &Option<String>| any.as_ref() == Some(value);
        if self.any_of.is_empty() { self.allows(value) } else { self.any_of.iter().all(only) }
    }

    /// Whether one of the values meets the requirement of a pod.
    fn can_meet(&self, requirement: &Requirement) -> bool {
        let Requirement { operator, values, .. } = requirement;
        if !self.any_of.is_empty() {
            return self.any_of.iter().all(|value| value_meets(requirement, value.as_ref()));
        }
        match (self.values(), operator.as_str()) {
            (Some(mut own), _) => own.any(|value| value_meets(requirement, Some(value))),
            (None, "In") => values.iter().any(|value| self.allows(value)),
            // One of the countless other values does, unless the label must not exist.
            (None, "NotIn" | "Exists" | "Gt" | "Lt" | "Gte" | "Lte") => true,
            (None, _) => false,
        }
    }
}

/// Whether labels meet a requirement.
pub(super) fn meets(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    value_meets(requirement, labels.get(&requirement.key))
}

/// Whether the value of the label of a requirement meets it. `None` if there is no such label.
fn value_meets(requirement: &Requirement, label: Option<&String>) -> bool {
    let Requirement { key: _, operator, values } = requirement;
    match operator.as_str() {
        "In" => label.is_some_and(|label| values.contains(label)),
        "NotIn" => label.is_none_or(|label| !values.contains(label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" | "Lt" | "Gte" | "Lte" => {
            label.zip(values.first()).is_some_and(|(label, value)| compares(label, operator, value))
        }
        _ => false,
    }
}

fn compares(left: &str, operator: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) else { return false };
    match operator {
        "Gt" => left > right,
        "Gte" => left >= right,
        "Lte" => left <= right,
        _ => left < right,
    }
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
    fn constraints_of_more_than_8_kib_are_not_kept() {
        let of = |values: usize| {
            let values: Vec<String> = (0..values).map(|at| format!("value-{at}")).collect();
            let requirement = Requirement { key: "k".into(), operator: "NotIn".into(), values };
            let term =
                NodeSelectorTerm { match_expressions: vec![requirement], match_fields: vec![] };
            let mut spec = PodSpec::default();
            spec.affinity.node_affinity.required =
                Some(NodeSelector { node_selector_terms: vec![term] });
            spec
        };
        let labels = BTreeMap::new();
        let (small, mut large) = (of(200), of(50_000));
        assert!(Constraints::of(&small).admit(&labels, &[]));
        let constraints = Constraints::of(&large);
        assert!(constraints.are_cut() && !constraints.admit(&labels, &[]));
        cut(&mut large);
        assert_eq!(Constraints::of(&large), constraints);
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

    /// Checks whether a pod may run on nodes with these requirements of a pool on `key`.
    #[track_caller]
    fn check_choice(pool: &[(&str, &[&str])], pod: (&str, &[&str]), admitted: bool) {
        let requirement = |(operator, values): &(&str, &[&str])| Requirement {
            key: "key".into(),
            operator: (*operator).into(),
            values: values.iter().map(ToString::to_string).collect(),
        };
        let mut choice = Choice::default();
        for one in pool {
            choice.require(&requirement(one));
        }
        let choices = [("key".to_owned(), choice)].into();
        let term = NodeSelectorTerm {
            match_expressions: vec![requirement(&pod)],
            ..NodeSelectorTerm::default()
        };
        let of = Constraints { terms: Some(vec![term]), ..Constraints::default() };
        assert_eq!(of.admit_any(&BTreeMap::new(), &choices, &[]), admitted, "{pool:?} {pod:?}");
        // A label whose value is known prevails.
        let labels = [("key".to_owned(), "other".to_owned())].into();
        assert_eq!(
            of.admit_any(&labels, &choices, &[]),
            value_meets(&requirement(&pod), Some(&"other".to_owned()))
        );
    }

    #[test]
    fn a_label_may_have_each_value_that_a_pool_allows() {
        check_choice(&[("In", &["a", "b"])], ("In", &["b", "c"]), true);
        check_choice(&[("In", &["a", "b"])], ("In", &["c"]), false);
        check_choice(&[("In", &["a", "b"]), ("NotIn", &["a"])], ("In", &["a"]), false);
        check_choice(&[("In", &["a"])], ("NotIn", &["a"]), false);
        check_choice(&[("In", &["a", "b"])], ("NotIn", &["a"]), true);
        check_choice(&[("Exists", &[])], ("In", &["c"]), true);
        check_choice(&[("NotIn", &["c"])], ("In", &["c"]), false);
        check_choice(&[("Exists", &[])], ("NotIn", &["c"]), true);
        check_choice(&[("Exists", &[])], ("DoesNotExist", &[]), false);
        check_choice(&[("In", &["2", "8"])], ("Gt", &["4"]), true);
        check_choice(&[("Gt", &["4"])], ("In", &["2"]), false);
        check_choice(&[("Gt", &["4"])], ("Lt", &["9"]), true);
        check_choice(&[("Gte", &["4"])], ("In", &["4"]), true);
        check_choice(&[("Lte", &["4"])], ("In", &["5"]), false);
        check_choice(&[("OfAFutureVersion", &["4"])], ("In", &["5"]), true);
    }
}
