//! The result of a backtest as JSON, and the notes on its figures.

use demand::forecast::{Baseline, Method};
use embedder::Catalog;
use placeholders::Objective;
use serde_json::{Value, json};
use simulator::{Comparison, DAYS_MIN, SimulationSettings};
use traces::Trace;

use crate::answer::LEVELS;
use crate::errors::Errors;
use crate::horizon::Horizon;
use crate::named_forecaster::NamedModel;
use crate::score::{COVERAGE_DAYS, CoverageOverDays, Score};
use crate::table4::{self, Protocol};

/// The result of a backtest.
#[derive(Clone, Debug)]
pub struct Backtest {
    /// The errors of the forecasters.
    pub errors: Errors,
    /// The cost of decisions; `None` when only forecasts were scored.
    pub decisions: Option<Comparison>,
    /// The paper's protocol, if the backtest follows it.
    pub paper: Option<Protocol>,
    /// The models that were scored under their own names.
    pub networks: Vec<NamedModel>,
}

impl Backtest {
    /// Returns the result as one JSON object: `{"trace", "settings", "forecast", "decisions"}` and
    /// more.
    pub fn document(
        &self,
        settings: &SimulationSettings,
        trace: &Trace,
        catalog: &Catalog,
    ) -> Value {
        let Self { errors, decisions, paper, networks } = self;
        let decisions =
            decisions.as_ref().map(|comparison| comparison.document(settings, trace, catalog));
        let decisions =
            decisions.and_then(|mut object| object.get_mut("policies").map(Value::take));
        let mut object = report::versioned(json!({
            "trace": trace.source,
            "settings": settings,
            "networks": networks,
            "forecast": errors.scores,
            "decisions": decisions.unwrap_or_else(|| json!([])),
            "judged": {
                "ticks": errors.ticks,
                "days": errors.days,
                "pinball_levels": LEVELS,
                "quantiles": self.errors.quantiles,
                "lead_seconds": settings.lead().seconds,
            },
            "notes": self.notes(settings),
        }));
        if let (Some(protocol), Some(object)) = (*paper, object.as_object_mut()) {
            let milliseconds = |name: &str| errors.milliseconds(name);
            let table = table4::document(protocol, &errors.scores, milliseconds);
            object.insert("table4".into(), table);
        }
        object
    }

    /// Returns the notes that explain the figures.
    pub(super) fn notes(&self, settings: &SimulationSettings) -> Vec<String> {
        let Errors { ticks, days, .. } = self.errors;
        let q = quantiles(&self.errors.quantiles);
        let mut notes = vec![
            format!(
                "{ticks} ticks of {} on {days} days, for each bucket that was in use at any time. Demand is offered demand: each job counts from its submission on.",
                settings.tick
            ),
            "mse, pmse: squared errors, divided by the square of the bucket's largest demand before --from; pmse counts only forecasts that are too high. wape: absolute errors, divided by demand.".into(),
            "pinball: the mean loss over the quantiles .1 to .9, .95, .975 and .99, in nodes.".into(),
            "blend: the demand ahead of the ensemble, a weighted average of methods. No decision uses it.".into(),
            format!(
                "coverage: how often the actual value was below, and at most equal to, the quantile {q} of the objective. For D, the headroom replaces the quantile, because the ensemble minimises cost and does not hold that quantile."
            ),
            "D: the new nodes needed within the lead time, computed from every event and not only from ticks. The squared error is that of the mean. The forecast of last-value is 0. The forecast of the ensemble is that of the carrier. It may cover more than the lead time, because a launched node stays for some time.".into(),
        ];
        notes.push(if days < DAYS_MIN {
            format!("{days} days are too few for intervals by day (at least {DAYS_MIN}), so none is given.")
        } else {
            "Intervals hold 95 % of resamples by day, paired with last-value. An interval that covers 1 is a tie.".into()
        });
        notes.extend(coverage_note(&self.errors.scores, settings.policy.objective));
        notes.extend(self.errors.faults.clone());
        notes
    }
}

/// Returns the quantiles of the buckets as text: one number if all are equal.
fn quantiles(quantiles: &[f64]) -> String {
    let least = quantiles.iter().copied().fold(1.0, f64::min);
    let most = quantiles.iter().copied().fold(0.0, f64::max);
    if least < most {
        format!("{least:.3} to {most:.3} (by the price of the instance type)")
    } else {
        plain(most).to_string()
    }
}

/// A quantile without the noise of the arithmetic.
fn plain(quantile: f64) -> f64 {
    (quantile * 1e6).round() / 1e6
}

/// Returns the extremes of coverage for the methods that calibrate a quantile, or `None` when the
/// objective is not a quantile.
fn coverage_note(scores: &[Score], objective: Objective) -> Option<String> {
    let Objective::Quantile(quantile) = objective else { return None };
    let baselines = Baseline::ALL.into_iter().filter(|baseline| baseline.has_quantiles());
    let methods = Method::QUANTILES.into_iter().map(Method::name);
    let calibrated: Vec<&str> = methods.chain(baselines.map(Baseline::name)).collect();
    let extremes = scores.iter().filter_map(|score| {
        let over = score.coverage_over_7_days.filter(|_| score.horizon == Horizon::Lead)?;
        let CoverageOverDays { most_below, least_at_most } = over;
        let is_calibrated =
            score.name != Method::Ensemble.name() && calibrated.contains(&score.name.as_str());
        is_calibrated.then(|| {
            format!("{} {:.1}, {:.1}", score.name, 100.0 * most_below, 100.0 * least_at_most)
        })
    });
    let extremes: Vec<String> = extremes.collect();
    (!extremes.is_empty()).then(|| {
        format!(
            "Coverage of D over any {COVERAGE_DAYS} days, in %, at the quantile {} (the largest share below it, the smallest share at most equal to it): {}.",
            plain(quantile),
            extremes.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::JudgedForecast;
    use crate::tally::Tally;

    /// A wait ratio of 9 is the quantile 9 / (9 + 1), which is no short number in binary.
    #[test]
    fn quantiles_are_printed_without_noise() {
        assert_eq!(quantiles(&[1.0 - 0.1 - 1e-16]), "0.9");
        assert_eq!(quantiles(&[0.9999]), "0.9999");
        assert_eq!(quantiles(&[0.5, 0.75]), "0.500 to 0.750 (by the price of the instance type)");
    }

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

    /// Each day has two forecasts of 2 nodes. One actual value is 2; the other is 3 on the first
    /// day and 1 on the other days.
    #[test]
    fn coverage_is_reported_for_calibrated_quantiles_only() {
        let quantile = Objective::Quantile(0.9);
        let note = "Coverage of D over any 7 days, in %, at the quantile 0.9 (the largest share below it, the smallest share at most equal to it): state 50.0, 92.9.";
        check("state", 8, quantile, Some(note));
        check("state", 7, quantile, None);
        check("state", 8, Objective::default(), None);
        check("ensemble", 8, quantile, None);
        check("zero", 8, quantile, None);
    }
}
