//! The answer of a page: what the shown policy would have changed, in hours and in dollars.

use std::fmt::Write as _;

use base::days::DAY_SECONDS;
use embedder::{Bucket, Catalog, Resources, UNLIMITED};
use report::{day, elements, escape, grouped};
use traces::Trace;

use super::shown::{Rival, shown};
use crate::compare::{Comparison, PolicyResult};
use crate::figures::Figures;
use crate::settings::SimulationSettings;

/// Returns the answer as sentences and a table.
pub(super) fn headline(comparison: &Comparison) -> String {
    let (Some(reactive), Some(policy)) = (comparison.policies.first(), shown(comparison)) else {
        return String::new();
    };
    let rival = Rival::of(comparison, &policy.figures);
    let mut text = format!("<p class=\"lead\">{}</p>", answer(comparison.window, reactive, policy));
    if let Some(rival) = &rival {
        let _ = write!(text, "<p class=\"lead\">{}</p>", beside(rival, policy));
    }
    text + &glance(reactive, policy, rival.as_ref())
}

impl Comparison {
    /// The answer in sentences: the hours of waiting and the dollars with the shown policy and with
    /// the autoscaler alone. Empty without policies.
    pub fn answer(&self) -> String {
        let (Some(reactive), Some(policy)) = (self.policies.first(), shown(self)) else {
            return String::new();
        };
        answer(self.window, reactive, policy).replace("<b>", "").replace("</b>", "")
    }
}

fn answer(window: (i64, i64), reactive: &PolicyResult, policy: &PolicyResult) -> String {
    let name = escape(&policy.name());
    let (before, after) = (&reactive.figures, &policy.figures);
    if before.pending_minutes.sum <= 0.0 {
        return format!("No job waited for a node, so {name} had no waiting to remove.");
    }
    let days = grouped((window.1 - window.0) as f64 / DAY_SECONDS as f64);
    let share = 100.0 * (after.pending_minutes.sum / before.pending_minutes.sum - 1.0);
    format!(
        "With {name}, jobs would have waited <b>{} hours</b> for nodes in {days} days, and <b>{} hours</b> with the autoscaler alone: {}. The nodes would have cost <b>${}</b>, {}.{}{}",
        hours_text(after),
        hours_text(before),
        change(share),
        grouped(after.dollars),
        dollars_beyond(after.dollars, before.dollars, "the autoscaler alone"),
        break_even(after),
        never_started(before, after)
    )
}

/// Returns the price of waiting above which the policy pays off, as a sentence; empty where it
/// removes no waiting.
fn break_even(figures: &Figures) -> String {
    let price = figures.break_even_dollars;
    if !price.is_finite() {
        return String::new();
    }
    if price <= 0.0 {
        return " Waiting and nodes both cost less.".into();
    }
    format!(" It is worth it where an hour of a waiting pod costs more than <b>${price:.2}</b>.")
}

/// Returns the number of jobs that never started, as a sentence; empty where all started.
fn never_started(before: &Figures, after: &Figures) -> String {
    let [before, after] = [before, after].map(|figures| figures.jobs_never_started);
    if before.max(after) <= 0.0 {
        return String::new();
    }
    format!(
        " <b>{} jobs</b> never started, because no group had room ({} with the autoscaler alone); they wait until the end of the window.",
        grouped(after),
        grouped(before)
    )
}

fn beside(rival: &Rival, policy: &PolicyResult) -> String {
    let Rival { n, figures, waits_no_longer } = rival;
    let name = escape(&policy.name());
    let dollars = dollars_beyond(figures.dollars, policy.figures.dollars, &name);
    if *waits_no_longer {
        format!(
            "Without forecasts, the cheapest constant number of placeholders under which jobs wait no longer is {n} of each instance type. Its nodes would have cost <b>${}</b>, {dollars}.",
            grouped(figures.dollars)
        )
    } else {
        format!(
            "No constant number of placeholders that was run removes as much waiting. Under the one with the lowest cost, {n} of each instance type, jobs would have waited <b>{} hours</b>. Its nodes would have cost <b>${}</b>, {dollars}.",
            hours_text(figures),
            grouped(figures.dollars)
        )
    }
}

/// Returns a difference in words, such as `$120 (1.5 %) more than ensemble`.
fn dollars_beyond(dollars: f64, reference: f64, name: &str) -> String {
    let share = 100.0 * (dollars / reference - 1.0);
    if !share.is_finite() || share.abs() < 0.05 {
        return format!("as much as with {name}");
    }
    let word = if share > 0.0 { "more" } else { "less" };
    format!(
        "${} ({:.1} %) {word} than with {name}",
        grouped((dollars - reference).abs()),
        share.abs()
    )
}

fn change(percent: f64) -> String {
    let word = if percent > 0.0 { "more" } else { "less" };
    format!("{:.0} % {word}", percent.abs())
}

/// Returns the hours that jobs waited. Fewer than ten have a decimal, because a change would be
/// rounded away.
fn hours_text(figures: &Figures) -> String {
    let hours = hours(figures);
    if hours < 10.0 { format!("{hours:.1}") } else { grouped(hours) }
}

fn hours(figures: &Figures) -> f64 {
    figures.pending_minutes.sum / 60.0
}

/// A row of the table: its name, and its value. The last argument has the figures of `reactive`.
type Row = (&'static str, fn(&Figures, &Figures) -> String);

const ROWS: [Row; 9] = [
    ("hours that jobs waited", |f, _| hours_text(f)),
    ("hours that pods waited", |f, _| grouped(f.pending_pod_hours)),
    ("jobs that waited, %", |f, _| format!("{:.1}", 100.0 * (1.0 - f.jobs_hidden_share))),
    ("95 % of jobs waited at most, min", |f, _| format!("{:.1}", f.pending_minutes.p95)),
    ("idle node-hours", |f, _| grouped(f.idle_instance_hours)),
    ("cost of nodes, $", |f, _| grouped(f.dollars)),
    ("more than reactive, $", |f, reactive| grouped(f.dollars - reactive.dollars)),
    ("pays off where a pod's hour costs, $", |f, _| {
        let price = f.break_even_dollars;
        if price.is_finite() { format!("{:.2}", price.max(0.0)) } else { "–".into() }
    }),
    ("jobs that never started", |f, _| grouped(f.jobs_never_started)),
];

/// Returns the table of the policies that are compared first, one column for each.
fn glance(reactive: &PolicyResult, policy: &PolicyResult, rival: Option<&Rival>) -> String {
    let mut columns = vec![(reactive.name(), "no placeholders", &reactive.figures, "")];
    if let Some(Rival { n, figures, .. }) = rival {
        columns.push((format!("constant:{n}"), "no forecasts", figures, ""));
    }
    columns.push((policy.name(), "forecasts", &policy.figures, "strong"));
    let mut table =
        String::from("<div class=\"wide\"><table class=\"glance\"><thead><tr><th></th>");
    for (name, note, _, class) in &columns {
        let _ = write!(table, "<th class=\"{class}\">{}<small>{note}</small></th>", escape(name));
    }
    table += "</tr></thead><tbody>";
    for (name, value) in ROWS {
        let _ = write!(table, "<tr><th>{name}</th>");
        for (_, _, figures, class) in &columns {
            let _ =
                write!(table, "<td class=\"{class}\">{}</td>", value(figures, &reactive.figures));
        }
        table += "</tr>";
    }
    table + "</tbody></table></div>"
}

/// Returns the conditions of the run: the log and its dates, and the instance types on offer.
pub(super) fn conditions(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> String {
    let mut text = String::from("<dl>");
    let mut row = |term: &str, value: &str| {
        let _ = write!(text, "<dt>{term}</dt><dd>{}</dd>", escape(value));
    };
    let span = |from: i64, until: i64| format!("{} to {}", day(from), day(until));
    let dates = trace.jobs.first().zip(trace.jobs.last());
    let dates = dates
        .map_or(String::new(), |(first, last)| format!(", {}", span(first.submit, last.submit)));
    let jobs = grouped(trace.jobs.len() as f64);
    row("Log", &format!("{}: {jobs} jobs{dates}", trace.source));
    if let Some(policy) = comparison.policies.first() {
        let counted = grouped(policy.figures.jobs);
        let span = span(comparison.window.0, comparison.window.1);
        row(
            "Evaluated",
            &format!("{span}: {counted} jobs; earlier jobs only warm up the policies"),
        );
    }
    row(
        "Launches",
        &format!("take {} from the request of a node until it is ready", settings.launch_latency),
    );
    row("Decisions", &format!("every {} and at every change of demand", settings.tick));
    if settings.replays > 1 {
        let moved = format!(
            "{}; the figures are their means, and the pictures over time show the first",
            settings.replays
        );
        row("Replays", &moved);
    }
    text + "</dl>" + &instance_types(catalog)
}

/// Returns the instance types on offer, with their prices and their allocatable resources.
fn instance_types(catalog: &Catalog) -> String {
    let amount = |amount: u64, unit: f64, decimals: usize| match amount {
        UNLIMITED => "unlimited".into(),
        amount => format!("{:.decimals$}", amount as f64 / unit),
    };
    let row = |bucket: &Bucket| {
        let Resources { accelerators, cpu_millis, memory_bytes, .. } = bucket.allocatable;
        let cells = [
            format!("{:.3}", bucket.hourly.dollars()),
            amount(accelerators, 1.0, 0),
            amount(cpu_millis, 1e3, 1),
            amount(memory_bytes, f64::from(1 << 30), 1),
        ];
        format!("<th>{}</th>{}", escape(&bucket.name), elements("td", cells))
    };
    let rows = elements("tr", catalog.buckets().iter().map(row));
    format!(
        "<div class=\"wide\"><table><thead><tr><th>instance type<br>on offer</th><th>$ per<br>hour</th><th>accelerators</th><th>CPUs<br>for pods</th><th>GiB memory<br>for pods</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::shown::tests::{Sample, comparison};

    #[track_caller]
    fn check(samples: &[Sample], expected: &[&str]) {
        let text = headline(&comparison(samples));
        let sentences: Vec<String> = text
            .split("<p class=\"lead\">")
            .skip(1)
            .filter_map(|rest| {
                Some(rest.split_once("</p>")?.0.replace("<b>", "").replace("</b>", ""))
            })
            .collect();
        assert_eq!(sentences, expected);
    }

    #[test]
    fn the_headline_has_hours_and_dollars_beside_the_autoscaler_and_a_constant() {
        let reactive = ("reactive", 0.0, 97.1, 344_254.0);
        let ensemble = ("ensemble", 1.56, 24.7, 353_454.0);
        let answer = "With ensemble, jobs would have waited 25 hours for nodes in 3 days, and 97 hours with the autoscaler alone: 75 % less. The nodes would have cost $353,454, $9,200 (2.7 %) more than with the autoscaler alone. It is worth it where an hour of a waiting pod costs more than $5.00.";
        check(&[reactive, ensemble], &[answer]);
        check(
            &[reactive, ensemble, ("constant:4", 6.19, 24.4, 365_132.0)],
            &[
                answer,
                "Without forecasts, the cheapest constant number of placeholders under which jobs wait no longer is 4 of each instance type. Its nodes would have cost $365,132, $11,678 (3.3 %) more than with ensemble.",
            ],
        );
        check(
            &[reactive, ensemble, ("constant:1", 1.0, 60.0, 353_454.0)],
            &[
                answer,
                "No constant number of placeholders that was run removes as much waiting. Under the one with the lowest cost, 1 of each instance type, jobs would have waited 60 hours. Its nodes would have cost $353,454, as much as with ensemble.",
            ],
        );
        check(
            &[("reactive", 0.0, 0.0, 100.0), ("ensemble", 0.0, 0.0, 100.0)],
            &["No job waited for a node, so ensemble had no waiting to remove."],
        );
    }
}
