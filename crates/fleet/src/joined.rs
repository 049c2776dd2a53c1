//! The advice for each cluster, from the shards that are complete.

use std::collections::BTreeMap;

use advice::{Advice, Goal, Setting, Totals, Verdict};
use anyhow::Context as _;
use placeholders::Prices;
use serde::Serialize;

use super::plan::{Cluster, Plan, Shard};
use super::results::{Row, ShardResult};

/// The advice for all clusters.
#[derive(Clone, Debug, Serialize)]
pub struct FleetAdvice {
    /// One for each cluster, in the order of the plan.
    pub clusters: Vec<ClusterAdvice>,
    /// The number of shards that are complete.
    pub complete: usize,
    /// The numbers of those that are not.
    pub missing: Vec<usize>,
    /// How long the complete shards ran, in hours.
    pub shard_hours: f64,
}

/// The advice for one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterAdvice {
    /// Its name.
    pub name: String,
    /// `None` if the complete windows have too few days.
    pub advice: Option<Advice>,
    /// The days of the complete windows.
    pub days: usize,
    /// The windows of which a shard is missing. They do not count.
    pub missing: Vec<MissingWindow>,
    /// What a reader should know before trusting the advice.
    pub odd: Vec<String>,
}

/// A window of which a shard is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissingWindow {
    /// Its first second, in seconds of the log.
    pub from: i64,
    /// The second after its last.
    pub until: i64,
}

/// Fewer days than this are few for an advice.
const DAYS_FEW: usize = 14;

/// Where at least this share of pods does not wait with the autoscaler alone, there is little to
/// gain.
const HIDDEN_MANY: f64 = 0.98;

impl FleetAdvice {
    /// Joins the results of a plan. `results` has one element for each shard, in their order.
    ///
    /// # Errors
    /// The instance types of a cluster are invalid.
    pub fn new(plan: &Plan, results: &[Option<ShardResult>], goal: Goal) -> anyhow::Result<Self> {
        let of_cluster = |cluster: &Cluster| {
            let shards = plan.shards.iter().zip(results);
            let of: Vec<(&Shard, &Option<ShardResult>)> =
                shards.filter(|(shard, _)| shard.cluster == cluster.name).collect();
            ClusterAdvice::new(cluster, &of, goal)
                .with_context(|| format!("cluster {}", cluster.name))
        };
        let missing: Vec<usize> = (0..plan.shards.len())
            .filter(|number| results.get(*number).is_none_or(Option::is_none))
            .collect();
        Ok(Self {
            clusters: plan.clusters.iter().map(of_cluster).collect::<anyhow::Result<_>>()?,
            complete: plan.shards.len() - missing.len(),
            missing,
            shard_hours: results.iter().flatten().map(|result| result.seconds / 3_600.0).sum(),
        })
    }

    /// The days of the check of the clusters with an advice: of the autoscaler alone, and of what
    /// is recommended for each of them.
    pub fn totals(&self) -> (Totals, Totals) {
        let advice = || self.clusters.iter().filter_map(|cluster| cluster.advice.as_ref());
        let alone = Totals::sum(advice().map(|advice| &advice.reactive().checked_on));
        (alone, Totals::sum(advice().map(|advice| &advice.recommended().checked_on)))
    }
}

impl ClusterAdvice {
    fn new(
        cluster: &Cluster,
        shards: &[(&Shard, &Option<ShardResult>)],
        goal: Goal,
    ) -> anyhow::Result<Self> {
        let mut windows: BTreeMap<(i64, i64), Vec<&Option<ShardResult>>> = BTreeMap::new();
        for (shard, result) in shards {
            windows.entry((shard.from, shard.until)).or_default().push(result);
        }
        let mut days: Vec<Vec<Totals>> = vec![Vec::new(); cluster.settings.len()];
        let (mut missing, mut changed) = (Vec::new(), Vec::new());
        for ((from, until), of_window) in windows {
            let complete: Option<Vec<&ShardResult>> =
                of_window.into_iter().map(Option::as_ref).collect();
            let Some(complete) = complete else {
                missing.push(MissingWindow { from, until });
                continue;
            };
            if complete.iter().any(|result| result.jobs != complete[0].jobs) {
                changed.push(format!(
                    "the shards of the window from {from} to {until} replayed different jobs, because the log changed between them: remove their results, and run them soon after one another"
                ));
                missing.push(MissingWindow { from, until });
                continue;
            }
            let rows: Vec<&Row> = complete.iter().flat_map(|result| &result.rows).collect();
            for (at, of_setting) in days.iter_mut().enumerate() {
                of_setting.extend(by_day(rows.iter().copied().filter(|row| row.setting == at)));
            }
        }
        let count = days.iter().map(Vec::len).min().unwrap_or(0);
        let settings: Vec<(Setting, Vec<Totals>)> =
            cluster.settings.iter().cloned().zip(days).collect();
        let types = cluster.run.catalog.as_ref().context("run.catalog: the plan has none")?;
        let catalog = types.catalog().context("run.catalog")?;
        let price = Prices::new(cluster.run.policy.objective, &catalog).wait();
        let advice = Advice::new(&settings, &cluster.run, price, goal);
        let odd = [odd(advice.as_ref(), count, missing.len()), changed].concat();
        Ok(Self { name: cluster.name.clone(), advice, days: count, missing, odd })
    }
}

/// The means over the replays, by day.
fn by_day<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Totals> {
    let mut replays: BTreeMap<u32, BTreeMap<i64, Totals>> = BTreeMap::new();
    for row in rows {
        replays.entry(row.replay).or_default().insert(row.day, row.totals);
    }
    let of_replay = |days: BTreeMap<i64, Totals>| days.into_values().collect();
    Totals::means_of(&replays.into_values().map(of_replay).collect::<Vec<Vec<Totals>>>())
}

/// What a reader should know before trusting the advice.
fn odd(advice: Option<&Advice>, days: usize, missing: usize) -> Vec<String> {
    let mut odd = Vec::new();
    if missing > 0 {
        let are = if missing == 1 { "window is" } else { "windows are" };
        odd.push(format!("{missing} {are} missing"));
    }
    let Some(advice) = advice else {
        odd.push(format!("{days} days are too few: {} are needed", Advice::DAYS_MIN));
        return odd;
    };
    if days < DAYS_FEW {
        odd.push(format!("only {days} days"));
    }
    let reactive = advice.reactive();
    let all = Totals::sum([&reactive.chosen_on, &reactive.checked_on]);
    if all.pods == 0.0 {
        odd.push("no pod was submitted".into());
    } else if all.hidden_share() >= HIDDEN_MANY {
        odd.push(format!("{:.1} % of pods do not wait anyway", 100.0 * all.hidden_share()));
    }
    if advice.verdict == Verdict::NotConfirmed {
        odd.push("the last third contradicts the first two".into());
    }
    odd
}

#[cfg(test)]
mod tests {
    use advice::Varied;
    use instances::CatalogFile;
    use simulator::{Bill, SimulationSettings};

    use super::*;
    use crate::plan::Shares;

    const DAY: i64 = 86_400;

    /// Two windows of six days, with ensemble and the autoscaler alone, in two replays.
    fn plan(shares: Shares) -> Plan {
        let cluster = Cluster {
            name: "a".into(),
            run: SimulationSettings {
                replays: 2,
                catalog: Some(CatalogFile::of_types(["m5.xlarge"])),
                ..SimulationSettings::default()
            },
            warm_up_seconds: 0,
            settings: Setting::all(&["ensemble".parse().unwrap()], &Varied::default()),
        };
        Plan::new(vec![cluster], &[(0, 12 * DAY)], shares).unwrap()
    }

    /// A day costs 40 alone, and 30 with ensemble; the replays differ by one around that.
    fn result(shard: &Shard) -> ShardResult {
        let mut rows = Vec::new();
        for setting in shard.settings.clone() {
            for replay in shard.replays.first..shard.replays.first + shard.replays.count {
                for day in shard.from / DAY..shard.until / DAY {
                    let waiting = [40.0, 10.0][setting] + f64::from(replay) * 2.0 - 1.0;
                    let idling = [0.0, 20.0][setting];
                    let bill = Bill { waiting, idling, ..Bill::default() };
                    let totals = Totals { pods: 1.0, bill, ..Totals::default() };
                    rows.push(Row { setting, replay, day: day * DAY, totals });
                }
            }
        }
        ShardResult { rows, seconds: 1_800.0, jobs: String::new() }
    }

    /// However the runs are shared out, the advice is the same.
    #[test]
    fn shards_are_joined_to_the_advice_of_one_machine() {
        let advice = |shares: Shares| {
            let plan = plan(shares);
            let results: Vec<Option<ShardResult>> =
                plan.shards.iter().map(|shard| Some(result(shard))).collect();
            let joined = FleetAdvice::new(&plan, &results, Goal::Cost).unwrap();
            assert_eq!((joined.complete, &joined.missing[..]), (plan.shards.len(), &[][..]));
            serde_json::to_value(&joined.clusters).unwrap()
        };
        let whole = advice(Shares { window: Some(6 * DAY), settings: 8, replays: 8 });
        assert_eq!(whole[0]["advice"]["check"]["extra_cost"], -0.25);
        assert_eq!(whole[0]["days"], 12);
        let parts = advice(Shares { window: Some(6 * DAY), settings: 1, replays: 1 });
        assert_eq!(whole, parts);
    }

    #[test]
    fn shards_that_replayed_different_jobs_are_not_joined() {
        let plan = plan(Shares { window: None, settings: 1, replays: 2 });
        let mut results: Vec<Option<ShardResult>> =
            plan.shards.iter().map(|shard| Some(result(shard))).collect();
        results[1].as_mut().unwrap().jobs = "one more".into();
        let joined = FleetAdvice::new(&plan, &results, Goal::Cost).unwrap();
        let cluster = &joined.clusters[0];
        assert_eq!(cluster.missing, [MissingWindow { from: 0, until: 12 * DAY }]);
        let told = "the shards of the window from 0 to 1036800 replayed different jobs";
        assert!(cluster.odd.iter().any(|odd| odd.starts_with(told)), "{:?}", cluster.odd);
    }

    #[test]
    fn a_window_with_a_missing_shard_does_not_count() {
        let plan = plan(Shares { window: Some(6 * DAY), settings: 1, replays: 2 });
        let mut results: Vec<Option<ShardResult>> =
            plan.shards.iter().map(|shard| Some(result(shard))).collect();
        results[3] = None;
        let joined = FleetAdvice::new(&plan, &results, Goal::Cost).unwrap();
        let cluster = &joined.clusters[0];
        assert_eq!((joined.complete, &joined.missing[..]), (3, &[3][..]));
        assert_eq!((cluster.days, joined.shard_hours), (6, 1.5));
        assert_eq!(cluster.missing, [MissingWindow { from: 6 * DAY, until: 12 * DAY }]);
        assert_eq!(cluster.odd, ["1 window is missing", "only 6 days"]);
        assert!(cluster.advice.is_some());
        let none = FleetAdvice::new(&plan, &[None, None, None, None], Goal::Cost).unwrap();
        assert!(none.clusters[0].advice.is_none());
        assert_eq!(none.clusters[0].odd[1], "0 days are too few: 3 are needed");
    }
}
