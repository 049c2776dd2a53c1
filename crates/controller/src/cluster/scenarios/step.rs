//! The steps of a scenario, one in each line.

use anyhow::{Context as _, bail};
use base::span::Span;
use serde_json::{Value, json};

/// A step of a scenario.
#[derive(Debug)]
pub(super) enum Step {
    Operator(Value),
    Groups(Value),
    LiveGroups,
    Policy { name: String, spec: Value },
    PolicyGone(String),
    Node { name: String, instance_type: String, fields: Value },
    NodeGone(String),
    Pods { names: Vec<String>, requests: Value, node: Option<String> },
    Bind { name: String, node: String },
    End(String),
    Object(Value),
    Placeholder { node: String },
    Preempt { node: String },
    Autoscaler(String),
    Watch { name: String, works: bool },
    Api { works: bool },
    OffSwitch { is_off: bool },
    Wait(i64),
}

impl Step {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        let (words, fields) = match line.find('{') {
            Some(at) => {
                let end = line.rfind('}').context("a } is missing")? + 1;
                (format!("{} {{}}{}", line[..at].trim_end(), &line[end..]), &line[at..end])
            }
            None => (line.to_owned(), "{}"),
        };
        let value = || serde_saphyr::from_str::<Value>(fields).context("the fields are not YAML");
        let words: Vec<&str> = words.split_whitespace().collect();
        let text = |word: &&str| (*word).to_owned();
        Ok(match words.as_slice() {
            ["operator", "{}"] => Self::Operator(value()?),
            ["groups", "{}"] => Self::Groups(value()?),
            ["groups", "of", "nodes"] => Self::LiveGroups,
            ["policy", "{}"] => Self::Policy { name: "batch".into(), spec: value()? },
            ["policy", "gone"] => Self::PolicyGone("batch".into()),
            ["policy", name, "{}"] => Self::Policy { name: text(name), spec: value()? },
            ["policy", name, "gone"] => Self::PolicyGone(text(name)),
            ["node", name, "gone"] => Self::NodeGone(text(name)),
            ["node", name, instance_type] | ["node", name, instance_type, "{}"] => {
                let (name, instance_type) = (text(name), text(instance_type));
                Self::Node { name, instance_type, fields: value()? }
            }
            ["pod", name, "ends"] => Self::End(text(name)),
            ["pod", name, "on", node] => Self::Bind { name: text(name), node: text(node) },
            ["pod", name, "{}"] => {
                Self::Pods { names: vec![text(name)], requests: value()?, node: None }
            }
            ["pod", name, "{}", "on", node] => {
                let (names, node) = (vec![text(name)], Some(text(node)));
                Self::Pods { names, requests: value()?, node }
            }
            ["pods", count, name, "{}"] => {
                let count: usize = count.parse().context("the number of pods")?;
                let names = (0..count).map(|at| format!("{name}-{at}")).collect();
                Self::Pods { names, requests: value()?, node: None }
            }
            ["object", "{}"] => Self::Object(value()?),
            ["placeholder", "on", node] => Self::Placeholder { node: text(node) },
            ["preempt", "on", node] => Self::Preempt { node: text(node) },
            ["autoscaler", "{}"] => Self::Autoscaler(fields.to_owned()),
            ["watch", name, "fails"] => Self::Watch { name: text(name), works: false },
            ["watch", name, "works"] => Self::Watch { name: text(name), works: true },
            ["api", "refuses"] => Self::Api { works: false },
            ["off"] => Self::OffSwitch { is_off: true },
            ["on"] => Self::OffSwitch { is_off: false },
            ["api", "works"] => Self::Api { works: true },
            ["wait", time] => {
                let span: Span = time.parse().map_err(anyhow::Error::msg)?;
                Self::Wait(span.as_seconds())
            }
            ["turn"] => Self::Wait(0),
            _ => bail!("unknown step {line:?}"),
        })
    }
}

/// The Kubernetes requests of a container, from the fields of a step.
pub(super) fn container(requests: &Value) -> Value {
    json!({"name": "main", "image": "job", "resources": {"requests": requests}})
}
