//! The answer of a page: which forecaster is best, by how much, and whether that is a tie.

use std::fmt::Write as _;

use report::{elements, escape, grouped};
use simulator::{
    COST_NOTE, Comparison, DAYS_MIN, NamedPolicy, PolicyResult, Ratio, SimulationSettings,
};

use super::document::Backtest;
use crate::horizon::Horizon;
use crate::score::Score;

/// The forecaster that all ratios divide by.
const REFERENCE: &str = "last-value";
/// The explanation of losses below the table.
const LOSS_NOTE: &str = "The pinball loss is the mean error of a forecast's quantiles, in nodes; lower is better. Intervals hold 95 % of resamples by day. A tie is a difference that the interval of the two losses does not support.";

/// The forecaster that reads the future, so it is not compared.
const ORACLE: &str = "oracle";

/// Returns the scores of a horizon, ascending by pinball loss.
pub(super) fn best_first(scores: &[Score], horizon: Horizon) -> Vec<&Score> {
    let mut scores: Vec<&Score> = scores.iter().filter(|score| score.horizon == horizon).collect();
    scores.sort_by(|a, b| a.pinball.total_cmp(&b.pinball).then_with(|| a.name.cmp(&b.name)));
    scores
}

/// Returns the answer as sentences and a table.
///
/// The answer is about D, because policies hold placeholders for D. Without forecasts of D, it is
/// about demand one tick ahead.
pub(super) fn headline(backtest: &Backtest, settings: &SimulationSettings) -> String {
    let scores = &backtest.errors.scores;
    let horizons = [Horizon::Lead, Horizon::Ticks(1)];
    let Some(horizon) =
        horizons.into_iter().find(|horizon| !best_first(scores, *horizon).is_empty())
    else {
        return "<p class=\"lead\">No forecast was scored.</p>".into();
    };
    let ranked = best_first(scores, horizon);
    let Some(&best) = ranked.iter().find(|score| score.name != ORACLE) else {
        return "<p class=\"lead\">No forecaster of the past was scored.</p>".into();
    };
    let subject = match horizon {
        Horizon::Lead => {
            format!("the new nodes needed within {} s", settings.lead().seconds)
        }
        Horizon::Ticks(_) => format!("demand one tick ({}) ahead", settings.tick),
    };
    let mut text = format!(
        "<p class=\"lead\">{} {}</p>",
        against_reference(best, &escape(&subject)),
        against_others(best, &ranked, settings.seed)
    );
    if let Some(comparison) = &backtest.decisions {
        let _ = write!(text, "<p class=\"lead\">{}</p>", decisions(comparison));
    }
    text += &table(&ranked, best, backtest.decisions.as_ref(), settings.seed);
    let _ = write!(text, "<p>{LOSS_NOTE}");
    if backtest.decisions.is_some() {
        let _ = write!(text, " Extra cost is {COST_NOTE}.");
    }
    text += "</p>";
    text
}

/// Returns by how much the best forecaster is better than the reference.
fn against_reference(best: &Score, subject: &str) -> String {
    if best.name == REFERENCE {
        return format!("No forecaster forecasts {subject} better than the last value.");
    }
    let name = escape(&best.name);
    let Some(Ratio { ratio, interval, tie }) = best.pinball_ratio else {
        return format!("<b>{name}</b> forecasts {subject} best; the last value made no error.");
    };
    let less = |ratio: f64| 100.0 * (1.0 - ratio);
    let sentence = format!(
        "<b>{name}</b> forecasts {subject} best. Its pinball loss is <b>{:.1} %</b> below that of the last value",
        less(ratio)
    );
    match (interval, tie) {
        (Some((low, high)), Some(tie)) => format!(
            "{sentence} (95 % interval by day: {:.1} % to {:.1} %), so the two are {}.",
            less(high),
            less(low),
            if tie { "a tie" } else { "no tie" }
        ),
        _ => format!(
            "{sentence}. Fewer than {DAYS_MIN} days were scored, which is too few to decide whether the two are a tie."
        ),
    }
}

/// Whether a forecaster and the best one are a tie, by their losses on the same days; `None` when
/// there are too few days.
fn is_tie(score: &Score, best: &Score, seed: u64) -> Option<bool> {
    Ratio::of(&score.pinball_by_day, &best.pinball_by_day, seed)?.tie
}

/// Returns the forecasters that are a tie with the best one.
fn against_others(best: &Score, ranked: &[&Score], seed: u64) -> String {
    let others = ranked.iter().filter(|score| score.name != best.name && score.name != ORACLE);
    let compared: Vec<(&str, bool)> = others
        .filter_map(|score| Some((score.name.as_str(), is_tie(score, best, seed)?)))
        .collect();
    let ties: Vec<&str> = compared.iter().filter(|(_, tie)| *tie).map(|(name, _)| *name).collect();
    match (compared.is_empty(), ties.as_slice()) {
        (true, _) => String::new(),
        (false, []) => "No other forecaster is a tie with it.".into(),
        (false, [tie]) => format!("One forecaster is a tie with it: {}.", escape(tie)),
        (false, ties) => {
            format!("{} forecasters are ties with it: {}.", ties.len(), escape(&ties.join(", ")))
        }
    }
}

/// Returns the decisions with the lowest cost.
fn decisions(comparison: &Comparison) -> String {
    let forecasts = |policy: &&PolicyResult| {
        matches!(policy.named_policy, NamedPolicy::Forecast(..))
            && policy.figures.extra_cost.is_finite()
    };
    let policies = comparison.policies.iter().filter(forecasts);
    let best = policies.min_by(|a, b| a.figures.extra_cost.total_cmp(&b.figures.extra_cost));
    let Some(best) = best else { return "No decision was compared.".into() };
    let extra = 100.0 * best.figures.extra_cost;
    format!(
        "Decisions by <b>{}</b> cost the least: they {} {:.0} % of the price of the waiting with the autoscaler alone.",
        escape(&best.name()),
        if extra > 0.0 { "add" } else { "save" },
        extra.abs()
    )
}

const HEADS: [&str; 7] = [
    "forecaster",
    "pinball loss,<br>nodes",
    "share of<br>last-value's, %",
    "95 %<br>interval",
    "tie with<br>the best",
    "decisions:<br>hours waited",
    "decisions:<br>extra cost, %",
];

/// Returns the forecasters with their losses, and with the cost of decisions by them, if known.
fn table(ranked: &[&Score], best: &Score, comparison: Option<&Comparison>, seed: u64) -> String {
    // Without decisions, the last two columns are left out.
    let columns = if comparison.is_some() { HEADS.len() } else { HEADS.len() - 2 };
    let heads = elements("th", HEADS.iter().take(columns));
    let row = |score: &&Score| {
        let ratio = score.pinball_ratio.filter(|_| score.name != REFERENCE);
        let percent = |ratio: f64| format!("{:.1}", 100.0 * ratio);
        let interval = ratio.and_then(|ratio| ratio.interval);
        let tie = if score.name == best.name || score.name == ORACLE {
            None
        } else {
            is_tie(score, best, seed)
        };
        let policy = comparison.and_then(|comparison| {
            comparison.policies.iter().find(|policy| policy.name() == score.name)
        });
        let figure = |text: &dyn Fn(&PolicyResult) -> String| policy.map_or("–".into(), text);
        let cells = [
            format!("{:.4}", score.pinball),
            score.pinball_ratio.map_or("–".into(), |ratio| percent(ratio.ratio)),
            interval.map_or("–".into(), |(low, high)| {
                format!("{} to {}", percent(low), percent(high))
            }),
            tie.map_or("–", |tie| if tie { "tie" } else { "no" }).into(),
            figure(&|policy| grouped(policy.figures.pending_minutes.sum / 60.0)),
            figure(&|policy| format!("{:.1}", 100.0 * policy.figures.extra_cost)),
        ];
        let cells = elements("td", cells.iter().take(columns - 1));
        let class = if score.name == best.name { "strong" } else { "" };
        let note = match score.name.as_str() {
            ORACLE => "<small>reads the future</small>",
            REFERENCE => "<small>the reference</small>",
            _ => "",
        };
        format!("<tr class=\"{class}\"><th>{}{note}</th>{cells}</tr>", escape(&score.name))
    };
    let rows: String = ranked.iter().map(row).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}
