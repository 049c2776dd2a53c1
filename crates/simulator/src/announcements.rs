//! Which jobs of a log are announced to policies, and when.

use base::span::Span;
use serde::{Deserialize, Serialize};

/// Which jobs are announced, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Announcements {
    /// The share of jobs that are announced, in [0, 1].
    pub share: f64,
    /// How long before its submission a job is announced.
    pub ahead: Span,
    /// The share of announcements for which no job is submitted, in [0, 1).
    pub false_share: f64,
    /// Which jobs are announced.
    pub by: AnnouncedBy,
    /// Whether the next jobs of workflows are known, where the log has them.
    pub successors: bool,
}

impl Default for Announcements {
    fn default() -> Self {
        let by = AnnouncedBy::default();
        Self { share: 0.0, ahead: Span::seconds(300), false_share: 0.0, by, successors: false }
    }
}

/// Which jobs are announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AnnouncedBy {
    /// Any jobs.
    #[default]
    Jobs,
    /// All jobs of some users; jobs without a user are like jobs of users of their own.
    Users,
    /// The largest jobs, by the nodes that their pods need.
    Largest,
}

impl Announcements {
    /// Whether no job is announced.
    pub fn are_none(&self) -> bool {
        self.share <= 0.0
    }

    /// Returns the fields that are out of range, with what is wrong.
    pub(crate) fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |field: &str, problem: String| {
            faults.push((format!("announced.{field}"), problem));
        };
        if !(0.0..=1.0).contains(&self.share) {
            fault("share", format!("{} is not in 0 to 1", self.share));
        }
        if !(0.0..=FALSE_SHARE_MAX).contains(&self.false_share) {
            let problem = format!("{} is not in 0 to {FALSE_SHARE_MAX}", self.false_share);
            fault("falseShare", problem);
        }
        if !(1..=AHEAD_SECONDS_MAX).contains(&self.ahead.as_seconds()) {
            fault("ahead", format!("{} is not in 1s to 1d", self.ahead));
        }
        faults
    }
}

/// The largest share of false announcements: 19 of 20. They are drawn for each announced job, so
/// their number must have a bound.
pub const FALSE_SHARE_MAX: f64 = 0.95;

/// The longest time that a job is announced ahead, in seconds: a day.
const AHEAD_SECONDS_MAX: i64 = 86_400;
