//! All that a backtest came to.

use placeholders::Objective;
use serde_json::{Value, json};

use crate::backtest::answer::LEVELS;
use crate::backtest::entrant::NamedModel;
use crate::backtest::errors::Errors;
use crate::backtest::horizon::Horizon;
use crate::backtest::score::{COVERAGE_DAYS, CoverageOverDays, Score};
use crate::backtest::table4;
use crate::forecast::Method;
use crate::simulate::{Comparison, DAYS_MIN, SimulationSettings};
use crate::trace::Trace;

/// What a backtest came to.
#[derive(Clone, Debug)]
pub struct Backtest {
    /// How far off forecasts were.
    pub errors: Errors,
    /// What decisions would have cost, where they were asked for.
    pub decisions: Option<Comparison>,
    /// Whether it is the paper's protocol.
    pub paper: bool,
    /// The networks that were judged under names of their own.
    pub networks: Vec<NamedModel>,
}

impl Backtest {
    /// As one object: `{"trace", "settings", "forecast", "decisions"}`, and more.
    pub fn document(&self, settings: &SimulationSettings, trace: &Trace) -> Value {
        let Self { errors, decisions, paper, networks } = self;
        let decisions = decisions.as_ref().map(|comparison| comparison.document(settings, trace));
        let decisions =
            decisions.and_then(|mut object| object.get_mut("policies").map(Value::take));
        let mut object = json!({
            "trace": trace.source,
            "settings": settings,
            "networks": networks,
            "forecast": errors.scores,
            "decisions": decisions.unwrap_or_else(|| json!([])),
            "judged": {
                "ticks": errors.ticks,
                "days": errors.days,
                "pinball_levels": LEVELS,
                "quantile": settings.policy.objective.quantile(),
                "lead_seconds": settings.lead().seconds,
            },
            "notes": self.notes(settings),
        });
        if let (true, Some(object)) = (*paper, object.as_object_mut()) {
            object.insert("table4".into(), table4::document(&errors.scores));
        }
        object
    }

    /// What a reader must know, a sentence each.
    pub(super) fn notes(&self, settings: &SimulationSettings) -> Vec<String> {
        let Errors { ticks, days, .. } = self.errors;
        let q = settings.policy.objective.quantile();
        let mut notes = vec![
            format!(
                "{ticks} ticks of {} on {days} days, each bucket that was ever in use; demand as offered: each job from its submission on.",
                settings.tick
            ),
            "mse, pmse: squared errors over the square of the bucket's largest demand before --from; pmse counts what is forecast too high. wape: absolute errors over demand.".into(),
            "pinball: the mean loss over the quantiles .1 to .9, .95, .975 and .99, in nodes.".into(),
            format!(
                "coverage: how often what came was below, and at most, the quantile {q} (of D, what is held: the ensemble holds what costs least, not that quantile)."
            ),
            "D: the new nodes needed within the lead, exact to the event. Its squared error is of the mean, and zero is what last-value says of it. The ensemble's is that of the method that carries it, which may look farther than the lead: a node that was launched stays for a while.".into(),
        ];
        notes.push(if days < DAYS_MIN {
            format!("{days} days are too few for intervals by day (at least {DAYS_MIN}): none is given.")
        } else {
            "Intervals: 95 % of resamples by day, paired with last-value; one that covers 1 is a tie.".into()
        });
        notes.extend(coverage_note(&self.errors.scores, settings.policy.objective));
        notes.extend(self.errors.faults.clone());
        notes
    }
}

/// Where a quantile was asked for, how far its coverage strays, by the methods that calibrate it.
fn coverage_note(scores: &[Score], objective: Objective) -> Option<String> {
    let Objective::Quantile(quantile) = objective else { return None };
    let calibrated = Method::QUANTILES.map(Method::name);
    let told = scores.iter().filter_map(|score| {
        let over = score.coverage_over_7_days.filter(|_| score.horizon == Horizon::Lead)?;
        let CoverageOverDays { most_below, least_at_most } = over;
        let is_told =
            score.name != Method::Ensemble.name() && calibrated.contains(&score.name.as_str());
        is_told.then(|| {
            format!("{} {:.1}, {:.1}", score.name, 100.0 * most_below, 100.0 * least_at_most)
        })
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "Coverage of D over any {COVERAGE_DAYS} days, in %, the quantile {quantile}: the largest share below it, the smallest at most it: {}.",
            told.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtest::answer::JudgedForecast;
    use crate::backtest::tally::Tally;

    #[track_caller]
    fn check(name: &str, days: usize, objective: Objective, expected: Option<&str>) {
        let mut tally = Tally::default();
        for day in 0..days {
            tally.add(day, &JudgedForecast::certain(2), 2, 4.0);
            tally.add(day, &JudgedForecast::certain(2), if day == 0 { 3 } else { 1 }, 4.0);
        }
        let score = Score::of(name.to_owned(), Horizon::Lead, &tally, &tally, 1);
        assert_eq!(coverage_note(&[score], objective).as_deref(), expected);
    }

    /// Each day one of two is met; the other is exceeded on the first day and not reached on the others.
    #[test]
    fn coverage_is_told_of_quantiles_that_are_asked_for() {
        let asked = Objective::Quantile(0.9);
        let told = "Coverage of D over any 7 days, in %, the quantile 0.9: the largest share below it, the smallest at most it: state 50.0, 92.9.";
        check("state", 8, asked, Some(told));
        check("state", 7, asked, None);
        check("state", 8, Objective::default(), None);
        check("ensemble", 8, asked, None);
        check("zero", 8, asked, None);
    }
}
