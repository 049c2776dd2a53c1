//! The clusters, their settings, and the shards.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use advice::Setting;
use anyhow::{Context as _, bail, ensure};
use base::days::days;
use serde::{Deserialize, Serialize};
use simulator::{NamedPolicy, SimulationSettings};

/// What is to be replayed. It is written once, so that each shard can run anywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The version of the format: [`Plan::VERSION`].
    pub version: u32,
    /// The clusters, by names that differ.
    pub clusters: Vec<Cluster>,
    /// The shards, in the order of their numbers.
    pub shards: Vec<Shard>,
}

/// A cluster, or the log of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The options of all its runs: its log, instance types and prices.
    pub run: SimulationSettings,
    /// How long before a window the log is replayed, in seconds.
    pub warm_up_seconds: i64,
    /// What is compared, the autoscaler alone first.
    pub settings: Vec<Setting>,
}

/// A part of the runs of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shard {
    /// The name of the cluster.
    pub cluster: String,
    /// The first second of the window, in seconds of the log.
    pub from: i64,
    /// The second after its last.
    pub until: i64,
    /// The positions of the settings in the list of the cluster.
    pub settings: Vec<usize>,
    /// The replays.
    pub replays: Replays,
}

/// Some consecutive replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replays {
    /// The number of the first one, from 0.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// How the runs of a cluster are shared out.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The length of a window, in seconds. `None` for one window.
    pub window: Option<i64>,
    /// The most settings of a shard.
    pub settings: usize,
    /// The most replays of a shard.
    pub replays: u32,
}

/// Everything that a shard depends on. Its text is in the result, so that a result of another plan
/// is not taken for it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part<'a> {
    /// The options of the cluster's runs.
    run: &'a SimulationSettings,
    /// How long before the window the log is replayed, in seconds.
    warm_up_seconds: i64,
    /// The settings that the shard runs.
    settings: Vec<&'a Setting>,
    /// The shard.
    shard: &'a Shard,
}

impl Plan {
    /// The version of the format.
    pub const VERSION: u32 = 1;

    /// The most shards.
    pub const SHARDS_MAX: usize = 100_000;

    /// Cuts the evaluated time of each cluster into windows, and each window into shards. `windows`
    /// has the evaluated time of each cluster, in seconds of its log.
    ///
    /// # Errors
    /// Two clusters have the same name, or there are too many shards.
    pub fn new(
        clusters: Vec<Cluster>,
        windows: &[(i64, i64)],
        shares: Shares,
    ) -> anyhow::Result<Self> {
        let mut all_shards = Vec::new();
        for (cluster, window) in clusters.iter().zip(windows) {
            for (from, until) in cut(*window, shares.window) {
                let settings: Vec<usize> = (0..cluster.settings.len()).collect();
                for settings in settings.chunks(shares.settings.max(1)) {
                    let (all, most) = (cluster.run.replays.max(1), shares.replays.max(1));
                    for first in (0..all).step_by(usize::try_from(most).unwrap_or(usize::MAX)) {
                        ensure!(
                            all_shards.len() < Self::SHARDS_MAX,
                            "there are more than {} shards: make windows longer, or shards larger",
                            Self::SHARDS_MAX
                        );
                        let replays = Replays { first, count: most.min(all - first) };
                        let settings = settings.to_vec();
                        let cluster = cluster.name.clone();
                        all_shards.push(Shard { cluster, from, until, settings, replays });
                    }
                }
            }
        }
        let plan = Self { version: Self::VERSION, clusters, shards: all_shards };
        plan.check()?;
        Ok(plan)
    }

    /// Checks what the format itself does not.
    ///
    /// # Errors
    /// The version is another one, names of clusters are equal, or a shard names a cluster or a
    /// setting that does not exist.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.version == Self::VERSION,
            "version: this build reads {}, and the plan has {}",
            Self::VERSION,
            self.version
        );
        for (at, cluster) in self.clusters.iter().enumerate() {
            ensure!(
                self.clusters[..at].iter().all(|other| other.name != cluster.name),
                "clusters[{at}].name: there are two clusters {}: name each, as NAME=SOURCE",
                cluster.name
            );
            cluster.check().with_context(|| format!("clusters[{at}]"))?;
        }
        let many = self.shards.len();
        ensure!(many <= Self::SHARDS_MAX, "shards: there are more than {}", Self::SHARDS_MAX);
        for (at, shard) in self.shards.iter().enumerate() {
            let cluster = self.cluster(shard).with_context(|| format!("shards[{at}].cluster"))?;
            shard.check(cluster).with_context(|| format!("shards[{at}]"))?;
        }
        for cluster in &self.clusters {
            self.check_runs(cluster).with_context(|| format!("cluster {}", cluster.name))?;
        }
        Ok(())
    }

    /// Checks that each setting runs in each replay of each window exactly once, and that windows
    /// do not overlap.
    fn check_runs(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let mut windows: BTreeMap<(i64, i64), Vec<&Shard>> = BTreeMap::new();
        for shard in self.shards.iter().filter(|shard| shard.cluster == cluster.name) {
            windows.entry((shard.from, shard.until)).or_default().push(shard);
        }
        for ((from, until), of_window) in &windows {
            ensure!(
                cluster.runs_once(of_window),
                "the shards of the window from {from} to {until} do not have each setting in each replay exactly once"
            );
        }
        let mut bounds = windows.keys().zip(windows.keys().skip(1));
        if let Some((one, next)) = bounds.find(|(one, next)| one.1 > next.0) {
            bail!("the windows from {} to {} and from {} overlap", one.0, one.1, next.0);
        }
        Ok(())
    }

    /// The cluster of a shard.
    ///
    /// # Errors
    /// There is none.
    pub fn cluster(&self, shard: &Shard) -> anyhow::Result<&Cluster> {
        let found = self.clusters.iter().find(|cluster| cluster.name == shard.cluster);
        found.with_context(|| format!("there is no cluster {}", shard.cluster))
    }

    /// Everything that a shard depends on.
    ///
    /// # Errors
    /// It has no cluster.
    pub fn part<'a>(&'a self, shard: &'a Shard) -> anyhow::Result<Part<'a>> {
        let Cluster { run, warm_up_seconds, settings, .. } = self.cluster(shard)?;
        let settings = shard.settings.iter().filter_map(|at| settings.get(*at)).collect();
        Ok(Part { run, warm_up_seconds: *warm_up_seconds, settings, shard })
    }
}

impl Part<'_> {
    /// The shard.
    pub fn shard(&self) -> &Shard {
        self.shard
    }
}

impl Cluster {
    /// The most settings.
    const SETTINGS_MAX: usize = 1_000;

    fn check(&self) -> anyhow::Result<()> {
        self.run.check().context("run")?;
        ensure!(
            self.settings.first() == Some(&Setting::of(NamedPolicy::Reactive)),
            "settings: the first must be the policy reactive"
        );
        let most = Self::SETTINGS_MAX;
        ensure!(self.settings.len() <= most, "settings: there are more than {most}");
        for (at, setting) in self.settings.iter().enumerate() {
            setting.check(&self.run).map_err(|fault| anyhow::anyhow!("settings[{at}]: {fault}"))?;
        }
        Ok(())
    }

    /// Whether these shards have each setting in each replay exactly once.
    fn runs_once(&self, shards: &[&Shard]) -> bool {
        let replays = u64::from(self.run.replays.max(1));
        let all = (self.settings.len() as u64).saturating_mul(replays);
        let count = |shard: &&Shard| shard.settings.len() as u64 * u64::from(shard.replays.count);
        let runs = |shard: &&Shard| -> Vec<(usize, u32)> {
            let each = shard.settings.iter();
            each.flat_map(|at| shard.replays.range().map(|replay| (*at, replay))).collect()
        };
        // All are counted first, because a plan of somebody else may have very many.
        shards.iter().map(count).fold(0, u64::saturating_add) == all
            && shards.iter().flat_map(runs).collect::<BTreeSet<_>>().len() as u64 == all
    }
}

impl Replays {
    /// Their numbers.
    pub fn range(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }
}

impl Shard {
    /// The most rows of a result.
    const ROWS_MAX: usize = 10_000_000;

    fn check(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let (count, mut distinct) = (cluster.settings.len(), self.settings.clone());
        ensure!(
            self.settings.iter().all(|setting| *setting < count),
            "settings: cluster {} has {count} settings",
            cluster.name
        );
        distinct.sort_unstable();
        distinct.dedup();
        ensure!(
            !distinct.is_empty() && distinct.len() == self.settings.len(),
            "settings: they are empty, or one is there twice"
        );
        ensure!(self.from < self.until, "until: it must be after from");
        let end = self.replays.first.checked_add(self.replays.count);
        ensure!(
            self.replays.count > 0 && end.is_some_and(|end| end <= cluster.run.replays.max(1)),
            "replays: the run has {}",
            cluster.run.replays.max(1)
        );
        ensure!(
            self.rows() <= Self::ROWS_MAX,
            "its result has more than {} rows: make windows shorter, or shards smaller",
            Self::ROWS_MAX
        );
        Ok(())
    }

    /// The number of rows of its result: one for each setting, replay and day.
    pub(crate) fn rows(&self) -> usize {
        let replays = usize::try_from(self.replays.count).unwrap_or(usize::MAX);
        self.settings.len().saturating_mul(replays).saturating_mul(days((self.from, self.until)))
    }

    /// The name of its result in the place of the results.
    pub fn file_name(number: usize) -> String {
        format!("shard-{number:05}.parquet")
    }
}

/// Cuts a window into parts of a length. A last part that is shorter than half of it belongs to the
/// part before.
fn cut((from, until): (i64, i64), length: Option<i64>) -> Vec<(i64, i64)> {
    let Some(length) = length.filter(|length| *length > 0) else { return vec![(from, until)] };
    let span = until.saturating_sub(from);
    let count = ((span.saturating_add(length / 2)) / length).max(1);
    let start = |at: i64| from.saturating_add(at.saturating_mul(length));
    (0..count).map(|at| (start(at), if at + 1 == count { until } else { start(at + 1) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_cut_into_parts_of_a_length() {
        let table = [
            ((0, 100), None, vec![(0, 100)]),
            ((0, 100), Some(50), vec![(0, 50), (50, 100)]),
            ((10, 100), Some(40), vec![(10, 50), (50, 100)]),
            ((0, 100), Some(30), vec![(0, 30), (30, 60), (60, 100)]),
            ((0, 10), Some(30), vec![(0, 10)]),
        ];
        for (window, length, expected) in table {
            assert_eq!(cut(window, length), expected, "{window:?} {length:?}");
        }
    }

    fn cluster(name: &str, replays: u32) -> Cluster {
        let policies = ["ensemble", "constant:1"].map(|policy| policy.parse().unwrap());
        Cluster {
            name: name.into(),
            run: SimulationSettings { replays, ..SimulationSettings::default() },
            warm_up_seconds: 0,
            settings: Setting::all(&policies, &advice::Varied::default()),
        }
    }

    /// Every setting runs in every replay of every window exactly once.
    #[test]
    fn shards_share_out_all_runs() {
        let clusters = vec![cluster("a", 5), cluster("b", 1)];
        let shares = Shares { window: Some(30), settings: 2, replays: 2 };
        let plan = Plan::new(clusters, &[(0, 60), (100, 130)], shares).unwrap();
        assert_eq!(plan.shards.len(), 2 * 2 * 3 + 2);
        let mut runs = Vec::new();
        for shard in &plan.shards {
            for setting in &shard.settings {
                let Replays { first, count } = shard.replays;
                let run = |replay| (shard.cluster.clone(), shard.from, *setting, replay);
                runs.extend((first..first + count).map(run));
            }
        }
        let total = runs.len();
        runs.sort();
        runs.dedup();
        assert_eq!((total, runs.len()), (2 * 3 * 5 + 3, 2 * 3 * 5 + 3));
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused() {
        let shares = Shares { window: None, settings: 8, replays: 8 };
        let of = |clusters: Vec<Cluster>| Plan::new(clusters, &[(0, 60), (0, 60)], shares);
        let error = of(vec![cluster("a", 1), cluster("a", 1)]).unwrap_err().to_string();
        assert_eq!(error, "clusters[1].name: there are two clusters a: name each, as NAME=SOURCE");
        let plan = of(vec![cluster("a", 1)]).unwrap();
        let refused = |change: fn(&mut Plan), expected: &str| {
            let mut plan = plan.clone();
            change(&mut plan);
            let error = format!("{:#}", plan.check().unwrap_err());
            assert_eq!(error, expected);
        };
        refused(|plan| plan.version = 9, "version: this build reads 1, and the plan has 9");
        refused(
            |plan| plan.shards[0].cluster = "c".into(),
            "shards[0].cluster: there is no cluster c",
        );
        refused(
            |plan| plan.shards[0].settings.push(7),
            "shards[0]: settings: cluster a has 3 settings",
        );
        refused(
            |plan| plan.shards[0].settings = vec![0, 0, 1],
            "shards[0]: settings: they are empty, or one is there twice",
        );
        refused(
            |plan| plan.shards[0].replays = Replays { first: 1, count: u32::MAX },
            "shards[0]: replays: the run has 1",
        );
        refused(
            |plan| plan.shards[0].settings = vec![0, 2],
            "cluster a: the shards of the window from 0 to 60 do not have each setting in each replay exactly once",
        );
        refused(
            |plan| {
                let other = Shard { from: 30, until: 90, ..plan.shards[0].clone() };
                plan.shards.push(other);
            },
            "cluster a: the windows from 0 to 60 and from 30 overlap",
        );
        refused(
            |plan| plan.clusters[0].run.tick = base::span::Span::seconds(0),
            "clusters[0]: run: tick: 0s is not in 1s to 1d",
        );
        refused(
            |plan| plan.clusters[0].settings.push(Setting::of(NamedPolicy::BestConstant)),
            "clusters[0]: settings[3]: best-constant is found by a search over runs: give the constants, such as constant:1 and constant:2",
        );
        refused(
            |plan| plan.clusters[0].settings.truncate(0),
            "clusters[0]: settings: the first must be the policy reactive",
        );
    }
}
