//! The choice of a setting, and its check on days that the choice did not see.

use serde::{Serialize, Serializer};
use serde_json::Value;
use simulator::{DAYS_MIN, NamedPolicy, Ratio, SimulationSettings, next_on_hull};

use super::setting::Setting;
use super::totals::Totals;

/// What the chosen setting must be best at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The least cost: the price of waiting, and of nodes while they idle and launch.
    #[default]
    Cost,
    /// The least waiting for a bill of at most this multiple of the autoscaler's.
    BillAtMost(f64),
    /// The least bill with at most this share of the autoscaler's waiting.
    WaitingAtMost(f64),
}

/// A setting that was compared.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its name in tables.
    pub name: String,
    /// The setting.
    pub setting: Setting,
    /// Whether a cluster can have it. Others are references.
    pub is_for_clusters: bool,
    /// The days by which the setting was chosen.
    pub chosen_on: Totals,
    /// The later days, by which it was checked.
    pub checked_on: Totals,
}

/// The check of the chosen setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Its cost beyond the autoscaler's on the days of the check, as a share of the price of the
    /// autoscaler's waiting; null if nothing waited.
    #[serde(serialize_with = "finite")]
    pub extra_cost: f64,
    /// The interval of this share that holds 95 % of the resamples of the days. `None` with fewer
    /// than ten days.
    pub interval: Option<(f64, f64)>,
    /// The number of days that were resampled: those of the check if they suffice, or else all.
    pub interval_days: usize,
}

/// Whether the chosen setting is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The setting met the goal on the days of the check, too, and cost less than the autoscaler
    /// alone beyond chance.
    Recommended,
    /// The setting met the goal on the days of the check, but the difference may be chance.
    Weak,
    /// The setting did not meet the goal on the days of the check: leave Prophet off.
    NotConfirmed,
    /// The autoscaler alone is best with another option of its own, also on the days of the check:
    /// leave Prophet off, and change that option.
    ChangeAutoscaler,
    /// No setting is better than the autoscaler alone: leave Prophet off.
    LeaveOff,
}

impl Verdict {
    /// Whether Prophet is recommended.
    pub fn is_on(self) -> bool {
        matches!(self, Self::Recommended | Self::Weak)
    }
}

/// A price of waiting from which on another setting costs least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// The price, in dollars per pending pod-hour.
    pub above: f64,
    /// The position of the setting.
    pub setting: usize,
}

/// The advice for one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The goal.
    pub goal: Goal,
    /// The price of waiting, in dollars per pending pod-hour.
    pub wait_price: f64,
    /// The number of days by which the setting was chosen.
    pub days_chosen_on: usize,
    /// The number of later days, by which it was checked.
    pub days_checked_on: usize,
    /// Every setting, the autoscaler alone first.
    pub settings: Vec<Judged>,
    /// The position of the chosen setting.
    pub chosen: usize,
    /// Whether it is recommended.
    pub verdict: Verdict,
    /// Its check.
    pub check: Check,
    /// Which setting costs least at which price of waiting, over all days, from a price of 0 on.
    pub switches: Vec<Switch>,
    /// The recommended setting as a policy of a cluster. `None` if Prophet is left off.
    pub policy: Option<Value>,
}

impl Advice {
    /// The smallest number of days: two for the choice, and one for the check.
    pub const DAYS_MIN: usize = 3;

    /// Chooses among settings, each with its days. The first must be the autoscaler alone.
    ///
    /// `None` if there are fewer than [`Advice::DAYS_MIN`] days, or no setting.
    pub fn new(
        settings: &[(Setting, Vec<Totals>)],
        run: &SimulationSettings,
        wait_price: f64,
        goal: Goal,
    ) -> Option<Self> {
        let (_, reactive) = settings.first()?;
        let days = settings.iter().map(|(_, days)| days.len()).min()?;
        if days < Self::DAYS_MIN {
            return None;
        }
        let first = days * 2 / 3;
        let judged: Vec<Judged> = settings
            .iter()
            .map(|(setting, days)| Judged {
                name: setting.to_string(),
                setting: setting.clone(),
                is_for_clusters: setting.is_for_clusters(),
                chosen_on: Totals::sum(&days[..first]),
                checked_on: Totals::sum(&days[first..]),
            })
            .collect();
        let chosen = choose(&judged, goal);
        let of_check = (&judged[chosen].checked_on, &judged[0].checked_on);
        let resampled = if days - first >= DAYS_MIN { first..days } else { 0..days };
        let pairs = settings[chosen].1[resampled.clone()].iter().zip(&reactive[resampled.clone()]);
        let (beyond, waiting): (Vec<f64>, Vec<f64>) = pairs
            .map(|(ours, alone)| (ours.bill.cost() - alone.bill.cost(), alone.bill.waiting))
            .unzip();
        let interval = Ratio::of(&beyond, &waiting, run.seed).and_then(|ratio| ratio.interval);
        let check = Check {
            extra_cost: of_check.0.extra_cost(of_check.1),
            interval,
            interval_days: resampled.len(),
        };
        let verdict = if judged[chosen].setting == judged[0].setting {
            Verdict::LeaveOff
        } else if !meets(of_check.0, of_check.1, goal) {
            Verdict::NotConfirmed
        } else if judged[chosen].setting.policy == NamedPolicy::Reactive {
            Verdict::ChangeAutoscaler
        } else if interval.is_some_and(|(_, high)| high < 0.0) {
            Verdict::Recommended
        } else {
            Verdict::Weak
        };
        let policy =
            if verdict.is_on() { judged[chosen].setting.policy_of_cluster(run) } else { None };
        Some(Self {
            goal,
            wait_price,
            days_chosen_on: first,
            days_checked_on: days - first,
            switches: switches(&judged),
            settings: judged,
            chosen,
            verdict,
            check,
            policy,
        })
    }

    /// The autoscaler alone.
    pub fn reactive(&self) -> &Judged {
        &self.settings[0]
    }

    /// The chosen setting.
    pub fn chosen(&self) -> &Judged {
        &self.settings[self.chosen]
    }

    /// The policy as YAML, below a comment with the setting, and with the option of
    /// cluster-autoscaler that belongs to it. `None` if Prophet is left off.
    pub fn policy_file(&self) -> Option<String> {
        let yaml = base::input::to_yaml(self.policy.as_ref()?).ok()?;
        let option = self.chosen().setting.autoscaler_options().map_or(String::new(), |option| {
            format!("\n# It needs this option of cluster-autoscaler: {option}")
        });
        let copy =
            "# For a policy that exists, copy these fields of the spec, and keep its other fields.";
        Some(format!(
            "# The setting: {}{option}\n{copy}\n{}\n",
            self.chosen().name,
            yaml.trim_end()
        ))
    }

    /// What is recommended: the chosen setting, or the autoscaler alone as it is.
    pub fn recommended(&self) -> &Judged {
        match self.verdict {
            Verdict::Recommended | Verdict::Weak | Verdict::ChangeAutoscaler => self.chosen(),
            Verdict::NotConfirmed | Verdict::LeaveOff => self.reactive(),
        }
    }
}

/// Returns the position of the best setting of a cluster: the first of equal ones, and the
/// autoscaler alone if none is within the limit of the goal.
fn choose(judged: &[Judged], goal: Goal) -> usize {
    let reactive = &judged[0].chosen_on;
    let value = |totals: &Totals| match goal {
        Goal::Cost => totals.bill.cost(),
        Goal::BillAtMost(_) => totals.weighted_pod_hours,
        Goal::WaitingAtMost(_) => totals.bill.nodes(),
    };
    let admitted = judged
        .iter()
        .enumerate()
        .filter(|(_, one)| one.is_for_clusters && is_within(&one.chosen_on, reactive, goal));
    let best = admitted
        .min_by(|(_, one), (_, other)| value(&one.chosen_on).total_cmp(&value(&other.chosen_on)));
    best.map_or(0, |(at, _)| at)
}

/// Whether some days of a setting are within the limit of the goal.
fn is_within(totals: &Totals, reactive: &Totals, goal: Goal) -> bool {
    match goal {
        Goal::Cost => true,
        Goal::BillAtMost(multiple) => totals.bill.nodes() <= multiple * reactive.bill.nodes(),
        Goal::WaitingAtMost(share) => {
            totals.weighted_pod_hours <= share * reactive.weighted_pod_hours
        }
    }
}

/// Whether a setting is within the limit of the goal, and is better than the autoscaler alone.
fn meets(totals: &Totals, reactive: &Totals, goal: Goal) -> bool {
    let is_better = match goal {
        Goal::Cost => totals.bill.cost() < reactive.bill.cost(),
        // As much waiting or more is within the limit, so that only the bill counts.
        Goal::WaitingAtMost(share) if share >= 1.0 => totals.bill.nodes() < reactive.bill.nodes(),
        Goal::BillAtMost(_) | Goal::WaitingAtMost(_) => {
            totals.weighted_pod_hours < reactive.weighted_pod_hours
        }
    };
    is_better && is_within(totals, reactive, goal)
}

/// Returns which setting of a cluster costs least at which price of waiting: the lower envelope of
/// the lines whose slopes are the hours of waiting.
fn switches(judged: &[Judged]) -> Vec<Switch> {
    let line = |one: &Judged| {
        let all = Totals::sum([&one.chosen_on, &one.checked_on]);
        (all.weighted_pod_hours, all.bill.cost() - all.bill.waiting)
    };
    let admitted = judged.iter().enumerate().filter(|(_, one)| one.is_for_clusters);
    let lines: Vec<(usize, (f64, f64))> = admitted.map(|(at, one)| (at, line(one))).collect();
    let least = lines.iter().min_by(|(_, one), (_, other)| {
        one.1.total_cmp(&other.1).then_with(|| one.0.total_cmp(&other.0))
    });
    let Some(mut current) = least.copied() else { return Vec::new() };
    let mut found = vec![Switch { above: 0.0, setting: current.0 }];
    while let Some((above, at)) = next_on_hull(lines.iter().map(|(_, line)| *line), current.1) {
        current = lines[at];
        found.push(Switch { above, setting: current.0 });
    }
    found
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simulator::Bill;

    use super::*;

    /// A day with so many weighted hours of waiting, at $10 an hour, and dollars of idle nodes.
    fn day(hours: f64, idling: f64) -> Totals {
        let bill = Bill { waiting: 10.0 * hours, idling, ..Bill::default() };
        Totals { weighted_pod_hours: hours, bill, ..Totals::default() }
    }

    fn advice(settings: &[(&str, Vec<Totals>)], goal: Goal) -> Advice {
        let of = |(policy, days): &(&str, Vec<Totals>)| {
            (Setting::of(policy.parse().unwrap()), days.clone())
        };
        let settings: Vec<(Setting, Vec<Totals>)> = settings.iter().map(of).collect();
        Advice::new(&settings, &SimulationSettings::default(), 10.0, goal).unwrap()
    }

    #[test]
    fn a_setting_is_chosen_on_two_thirds_and_checked_on_the_rest() {
        // Costs of a day: 40 alone, 30 with ensemble, 32 with constant:1; 20 with oracle, which
        // no cluster can have.
        let days = |hours, idling| vec![day(hours, idling); 12];
        let alone = ("reactive", days(4.0, 0.0));
        let ensemble = ("ensemble", days(1.0, 20.0));
        let constant = ("constant:1", days(2.0, 12.0));
        let oracle = ("oracle", days(0.0, 20.0));
        let all = [alone.clone(), constant.clone(), ensemble.clone(), oracle];
        let check = |goal, expected: &str, verdict| {
            let advice = advice(&all, goal);
            assert_eq!((advice.chosen().name.as_str(), advice.verdict), (expected, verdict));
        };
        check(Goal::Cost, "ensemble", Verdict::Recommended);
        check(Goal::WaitingAtMost(0.5), "constant:1", Verdict::Recommended);
        check(Goal::WaitingAtMost(0.3), "ensemble", Verdict::Recommended);
        check(Goal::WaitingAtMost(0.1), "reactive", Verdict::LeaveOff);
        let dear = [("reactive", days(4.0, 9.0)), ("constant:1", days(5.0, 1.0))];
        let cheaper = advice(&dear, Goal::WaitingAtMost(1.5));
        assert_eq!(
            (cheaper.chosen().name.as_str(), cheaper.verdict),
            ("constant:1", Verdict::Weak)
        );
        let mut unneeded = Setting::of(NamedPolicy::Reactive);
        unneeded.scale_down_unneeded_time = Some("20m".parse().unwrap());
        let both =
            [(Setting::of(NamedPolicy::Reactive), days(4.0, 0.0)), (unneeded, days(2.0, 1.0))];
        let run = SimulationSettings::default();
        let longer = Advice::new(&both, &run, 10.0, Goal::Cost).unwrap();
        assert_eq!(longer.verdict, Verdict::ChangeAutoscaler);
        assert_eq!(
            (&longer.recommended().name[..], &longer.policy),
            ("reactive, unneeded 20m", &None)
        );
        let advice = advice(&all, Goal::Cost);
        assert_eq!((advice.days_chosen_on, advice.days_checked_on), (8, 4));
        assert_eq!((advice.check.extra_cost, advice.check.interval_days), (-0.25, 12));
        assert_eq!(advice.check.interval, Some((-0.25, -0.25)));
        // From $6 an hour, two hours less are worth $12 more; from $8, another is worth $8 more.
        let switches: Vec<(f64, usize)> =
            advice.switches.iter().map(|switch| (switch.above, switch.setting)).collect();
        assert_eq!(switches, [(0.0, 0), (6.0, 1), (8.0, 2)]);
    }

    #[test]
    fn what_fails_on_the_days_of_the_check_is_not_recommended() {
        let alone = vec![day(4.0, 0.0); 12];
        let mut ours = vec![day(1.0, 20.0); 12];
        ours[8..].fill(day(4.0, 20.0));
        let advice = advice(&[("reactive", alone.clone()), ("ensemble", ours)], Goal::Cost);
        assert_eq!((advice.verdict, advice.check.extra_cost), (Verdict::NotConfirmed, 0.5));
        assert_eq!(advice.policy, None);
        // Few days give no interval, so that the advice is weak.
        let few = [("reactive", alone[..3].to_vec()), ("ensemble", vec![day(1.0, 20.0); 3])];
        let advice = self::advice(&few, Goal::Cost);
        assert_eq!((advice.verdict, advice.check.interval), (Verdict::Weak, None));
        assert_eq!(advice.policy.unwrap()["spec"]["forecast"]["method"], "ensemble");
        let two = vec![(Setting::of(NamedPolicy::Reactive), alone[..2].to_vec())];
        assert!(Advice::new(&two, &SimulationSettings::default(), 10.0, Goal::Cost).is_none());
    }

    #[test]
    fn a_bill_is_limited_by_that_of_the_autoscaler() {
        let paid = |hours, idling| {
            let day = day(hours, idling);
            Totals { bill: Bill { packing: 100.0, ..day.bill }, ..day }
        };
        let all = [
            ("reactive", vec![paid(4.0, 0.0); 12]),
            ("constant:1", vec![paid(2.0, 4.0); 12]),
            ("constant:2", vec![paid(1.0, 9.0); 12]),
        ];
        let chosen = |goal| advice(&all, goal).chosen().name.clone();
        assert_eq!(chosen(Goal::BillAtMost(1.10)), "constant:2");
        assert_eq!(chosen(Goal::BillAtMost(1.05)), "constant:1");
        assert_eq!(chosen(Goal::BillAtMost(1.01)), "reactive");
    }

    proptest! {
        /// At every price of waiting, the setting of the envelope costs no more than any other.
        #[test]
        fn the_envelope_has_the_cheapest_setting_at_every_price(
            lines in prop::collection::vec((0..50_u32, 0..50_u32), 1..12),
            price in 0.0..100.0,
        ) {
            let judged: Vec<Judged> = lines
                .iter()
                .map(|&(hours, dollars)| Judged {
                    name: String::new(),
                    setting: Setting::of(NamedPolicy::Reactive),
                    is_for_clusters: true,
                    chosen_on: day(f64::from(hours), f64::from(dollars)),
                    checked_on: Totals::default(),
                })
                .collect();
            let found = switches(&judged);
            prop_assert!(found.windows(2).all(|pair| pair[0].above <= pair[1].above));
            let chosen = found.iter().rfind(|switch| switch.above <= price).unwrap().setting;
            let cost = |at: usize| {
                let (hours, dollars) = lines[at];
                f64::from(hours) * price + f64::from(dollars)
            };
            let least = (0..lines.len()).map(cost).fold(f64::INFINITY, f64::min);
            prop_assert!(cost(chosen) <= least + 1e-9, "{} {least}", cost(chosen));
        }
    }
}
