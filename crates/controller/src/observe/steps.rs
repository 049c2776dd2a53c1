//! The steps of a workflow, as its object names them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A workflow that runs: an object that names steps before their pods exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenWorkflow {
    /// The kind, the namespace and the template of the workflow. Steps of one name of workflows of
    /// one template take about the same time.
    pub template: String,
    /// The steps.
    pub steps: Vec<SeenStep>,
    /// The most pods of the workflow that run at once. `None` without a limit.
    pub parallelism: Option<u64>,
}

/// A step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenStep {
    /// The name, unique in the workflow.
    pub name: String,
    /// The steps after whose end it starts, by their indices in the workflow.
    pub after: Vec<usize>,
    /// Its state.
    pub state: SeenState,
    /// The place of its pods in [`super::Announcement::pods`], and their number. `None` for a step
    /// without pods, or with pods of an unknown size.
    pub pods: Option<(usize, u64)>,
}

/// The state of a step in its object. Times are Unix seconds, and absent where the object has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenState {
    /// It did not start.
    Waiting,
    /// It runs since this time.
    Running(Option<i64>),
    /// It ended.
    Ended {
        /// When it started and ended.
        ran: Option<(i64, i64)>,
        /// Whether it ended without pods, because a condition was not met.
        skipped: bool,
    },
}

/// The most steps of a workflow that are read.
pub(super) const STEPS_MAX: usize = 500;

/// What identifies the template of a workflow: its kind, its namespace, and the name of the object
/// that it was made from, or what its own name has of that.
pub(super) fn template(kind: &str, metadata: &ObjectMeta, made_from: Option<&str>) -> String {
    let name = metadata.name.as_deref().unwrap_or_default();
    let name = made_from
        .map_or_else(|| template_of(name, metadata.generate_name.as_deref()), str::to_owned);
    format!("{kind} {}/{name}", metadata.namespace.as_deref().unwrap_or_default())
}

/// The name of the template of an object: `generateName` without its dash, or the name without a
/// number, a time or random letters and digits at its end.
fn template_of(name: &str, generate_name: Option<&str>) -> String {
    if let Some(generated) = generate_name.filter(|of| name.starts_with(of) && of.len() > 1) {
        return generated.trim_end_matches('-').to_owned();
    }
    let is_random = |part: &str| {
        (5..=10).contains(&part.len())
            && part.bytes().any(|at| at.is_ascii_digit())
            && part.bytes().all(|at| at.is_ascii_digit() || at.is_ascii_lowercase())
    };
    let stem = name.rsplit_once('-').filter(|(_, last)| is_random(last));
    let stem = stem.map_or(name, |(stem, _)| stem);
    let stem = stem.trim_end_matches(|at: char| at.is_ascii_digit() || "-_.".contains(at));
    if stem.is_empty() { name.to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_were_made_alike_have_one_template() {
        let check = |name: &str, generated: Option<&str>, expected: &str| {
            assert_eq!(template_of(name, generated), expected);
        };
        check("train-x7k2p", Some("train-"), "train");
        check("train-x7k2p", None, "train");
        check("train-large", None, "train-large");
        check("etl-8-x7k2p", None, "etl");
        check("train-1764421200", None, "train");
        check("train-2026-11-29", None, "train");
        check("train", None, "train");
        check("2026", None, "2026");
        check("renamed", Some("train-"), "renamed");
        check("-x", Some("-"), "-x");
    }
}
