//! Parses node-template tags, which describe the nodes of a group to cluster-autoscaler before the
//! group has a node.

use std::collections::BTreeMap;

use base::span::Span;

use super::problem::GroupFault;
use crate::observe::Taint;
use crate::observe::units;

const PREFIX: &str = "k8s.io/cluster-autoscaler/node-template/";

/// The name of the tag that overrides `--scale-down-unneeded-time` for a group.
const UNNEEDED_TIME: &str = "scaledownunneededtime";

/// Kubernetes' limit on the characters of a label value, and of the name in a label key.
const NAME_MAX: usize = 63;

/// Kubernetes' limit on the characters of the domain in a label key.
const DOMAIN_MAX: usize = 253;

/// The labels, taints and resources of a group's nodes, as its tags define them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeTemplate {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) resources: BTreeMap<String, String>,
    /// How long a node of the group must be unneeded before cluster-autoscaler removes it, in
    /// seconds, if a tag overrides its setting.
    pub(super) unneeded_seconds: Option<i64>,
    pub(super) faults: Vec<GroupFault>,
}

impl NodeTemplate {
    /// Parses the tags. Ignores tags with another prefix. An invalid tag is a fault.
    pub(super) fn of<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut template = Self::default();
        for (key, value) in tags {
            let Some(rest) = key.strip_prefix(PREFIX) else { continue };
            if let Err(problem) = template.add(rest, value) {
                template.faults.push(GroupFault::MalformedTag {
                    key: key.into(),
                    value: value.into(),
                    problem,
                });
            }
        }
        template.taints.sort();
        template.faults.sort();
        template
    }

    fn add(&mut self, rest: &str, value: &str) -> Result<(), &'static str> {
        let (kind, name) = rest.split_once('/').unwrap_or((rest, ""));
        // These tags configure how the group scales. They do not describe its nodes.
        if kind == "autoscaling-options" {
            if name == UNNEEDED_TIME {
                let unneeded = Span::of_go(value);
                let unneeded = unneeded.ok_or("expected a duration such as 5m0s")?;
                self.unneeded_seconds = Some(unneeded.as_seconds());
            }
            return Ok(());
        }
        if !matches!(kind, "label" | "taint" | "resources") {
            return Err("expected label/, taint/ or resources/ after node-template/");
        }
        if !is_qualified_name(name) {
            return Err("its name is not a valid name of a label, taint or resource");
        }
        match kind {
            "label" if is_label_value(value) => {
                self.labels.insert(name.into(), value.into());
            }
            "label" => return Err("its value is not a valid label value"),
            "taint" => self.taints.push(taint(name, value)?),
            _ if units(value).is_some() => {
                self.resources.insert(name.into(), value.into());
            }
            _ => return Err("its value is not a quantity"),
        }
        Ok(())
    }
}

fn taint(key: &str, text: &str) -> Result<Taint, &'static str> {
    let (value, effect) = text.rsplit_once(':').ok_or("expected VALUE:EFFECT")?;
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        return Err("its effect is not NoSchedule, PreferNoSchedule or NoExecute");
    }
    if !is_label_value(value) {
        return Err("its value is not a valid taint value");
    }
    Ok(Taint { key: key.into(), value: value.into(), effect: effect.into() })
}

/// Whether a text is a valid `name` or `domain/name`.
fn is_qualified_name(text: &str) -> bool {
    let (domain, name) =
        text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    let in_domain = |part: &str| {
        is_framed(part)
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let domain_fits = domain.is_none_or(|d| d.len() <= DOMAIN_MAX && d.split('.').all(in_domain));
    domain_fits && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.is_empty() || (text.len() <= NAME_MAX && is_framed(text) && text.chars().all(allowed))
}

/// Whether a text starts and ends with a letter or a digit.
fn is_framed(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(alphanumeric) && text.ends_with(alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the parsed tag, as one line of text. A fault needs only to contain `expected`.
    #[track_caller]
    fn check(rest: &str, value: &str, expected: &str) {
        let key = format!("{PREFIX}{rest}");
        let NodeTemplate { labels, taints, resources, unneeded_seconds, faults } =
            NodeTemplate::of([(key.as_str(), value)]);
        let mut parts: Vec<String> =
            labels.iter().map(|(key, value)| format!("label {key}={value}")).collect();
        parts.extend(
            taints
                .iter()
                .map(|Taint { key, value, effect }| format!("taint {key}={value}:{effect}")),
        );
        parts.extend(resources.iter().map(|(name, quantity)| format!("{quantity} of {name}")));
        parts.extend(unneeded_seconds.map(|seconds| format!("unneeded for {seconds} s")));
        parts.extend(faults.iter().map(ToString::to_string));
        let text = parts.join("; ");
        assert!(text == expected || (!faults.is_empty() && text.contains(expected)), "{text}");
    }

    #[test]
    fn labels_taints_and_resources_are_read() {
        check(
            "label/prophet.dev/placement-group",
            "pg-a",
            "label prophet.dev/placement-group=pg-a",
        );
        check("label/empty", "", "label empty=");
        check("taint/nvidia.com/gpu", "true:NoSchedule", "taint nvidia.com/gpu=true:NoSchedule");
        check("taint/batch", ":NoExecute", "taint batch=:NoExecute");
        check("resources/nvidia.com/gpu", "8", "8 of nvidia.com/gpu");
        check("resources/ephemeral-storage", "100Gi", "100Gi of ephemeral-storage");
        check("resources/memory", "1.5e9", "1.5e9 of memory");
        check("resources/cpu", "15890m", "15890m of cpu");
        check("autoscaling-options/scaledownunneededtime", "1m0s", "unneeded for 60 s");
        check("autoscaling-options/scaledownutilizationthreshold", "0.5", "");
    }

    #[test]
    fn an_invalid_tag_is_a_fault() {
        check("taint/batch", "true", "expected VALUE:EFFECT");
        check("taint/batch", "true:NoWay", "its effect is not NoSchedule");
        check("taint/batch", "a b:NoSchedule", "its value is not a valid taint value");
        check("label/", "x", "its name is not a valid name");
        check("label/UPPER.dev/x", "x", "its name is not a valid name");
        check("label/a/b/c", "x", "its name is not a valid name");
        check("label/x", "not a label", "its value is not a valid label value");
        check("resources/cpu", "a lot", "its value is not a quantity");
        check("resources/cpu", "-1", "its value is not a quantity");
        check("resources/cpu", "", "its value is not a quantity");
        check("resources/cpu", "1.2.3", "its value is not a quantity");
        check("labels/x", "y", "expected label/, taint/ or resources/");
        check("label", "y", "its name is not a valid name");
        check("autoscaling-options/scaledownunneededtime", "soon", "expected a duration");
    }

    #[test]
    fn tags_with_another_prefix_are_ignored() {
        assert_eq!(
            NodeTemplate::of([("Name", "x"), ("k8s.io/cluster-autoscaler/enabled", "")]),
            NodeTemplate::default()
        );
    }
}
