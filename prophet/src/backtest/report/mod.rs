//! Tables, files and pictures of a backtest.
//!
//! ```text
//! table.rs   for a terminal
//! html.rs    one self-contained page
//! ```

mod html;
mod table;

use std::io;

use embedder::Catalog;
use serde_json::{Value, json};

pub use table::write_table;

use super::answer::LEVELS;
use super::entrant::NamedNetwork;
use super::errors::Errors;
use super::table4;
use crate::simulate::{Comparison, DAYS_MIN, Settings};
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
    pub networks: Vec<NamedNetwork>,
}

impl Backtest {
    /// As one object: `{"trace", "settings", "forecast", "decisions"}`, and more.
    pub fn document(&self, settings: &Settings, trace: &Trace) -> Value {
        let Self { errors, decisions, paper, networks } = self;
        let decisions = decisions.as_ref().map(|comparison| comparison.document(settings, trace));
        let decisions = decisions.and_then(|mut object| object.get_mut("policies").map(Value::take));
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
    fn notes(&self, settings: &Settings) -> Vec<String> {
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
        notes.extend(self.errors.faults.clone());
        notes
    }
}

/// Writes all files of a report.
///
/// # Errors
/// Whatever writing fails with.
pub fn write_report(
    backtest: &Backtest,
    settings: &Settings,
    trace: &Trace,
    catalog: &Catalog,
    write: impl Fn(&str, &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let document = backtest.document(settings, trace);
    write("figures.json", &mut |to| serde_json::to_writer_pretty(to, &document).map_err(io::Error::from))?;
    let page = html::page(backtest, settings, trace, catalog);
    write("backtest.html", &mut |to| to.write_all(page.as_bytes()))
}
