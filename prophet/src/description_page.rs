//! The page of `prophet trace describe`: the distributions of a log, with logarithmic axes.
//!
//! They are those that "Borg: the Next Generation" draws of Google's clusters.

use std::fmt::Write as _;

use report::{Axis, Layer, Mark, Names, Plot, elements, escape, section, whole};
use traces::{Consumption, Description, LogTier, TierDelays};

/// Returns the description of a log as one HTML document with plots.
pub fn description_page(description: &Description) -> String {
    let Description { trace, format, jobs, days, notes, .. } = description;
    let mut body = format!(
        "<h1>{}</h1><p>{}, {jobs} jobs in {days:.1} days; {}</p>",
        escape(trace),
        escape(format),
        escape(notes)
    );
    consumption(description, &mut body);
    arrivals(description, &mut body);
    tiers(description, &mut body);
    scheduling_delays(description, &mut body);
    whole(&body, description, trace)
}

fn plot(x_label: &str, y_label: &str, x: Axis, layers: Vec<Layer>) -> Plot {
    Plot {
        x_label: x_label.into(),
        y_label: y_label.into(),
        x,
        y_from_zero: x == Axis::Time,
        x_end: None,
        names: Names::Legend,
        height: 340.0,
        layers,
    }
}

/// A line on logarithmic axes.
fn line(name: &str, class: &str, points: &[(f64, f64)]) -> Layer {
    let positive = points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let points = positive.map(|(x, y)| (x.log10(), y.log10()));
    Layer::new(name, class, Mark::Line(points.collect()))
}

/// The Pareto distribution of the fit, through the share of jobs at its lower end.
fn pareto(consumption: &Consumption, class: &str) -> Option<Layer> {
    let Consumption { tail, ccdf, .. } = consumption;
    let (from, to) = (tail.pareto_from, tail.pareto_to);
    let at = ccdf.iter().find(|point| point.0 >= from)?.1;
    let drawn = tail.pareto_index.is_finite() && to > from;
    let last = at * (to / from).powf(-tail.pareto_index);
    drawn.then(|| line("", &format!("{class} dashed"), &[(from, at), (to, last)]))
}

fn consumption(description: &Description, body: &mut String) {
    let mut layers = Vec::new();
    let mut rows = String::new();
    for (at, one) in description.consumption.iter().enumerate() {
        let class = format!("c{at}");
        layers.push(line(&one.resource, &class, &one.ccdf));
        layers.extend(pareto(one, &class));
        let (tail, p) = (&one.tail, &one.percentiles);
        let cells = [
            number(p.p50),
            number(p.p90),
            number(p.p99),
            number(p.p99_9),
            number(p.max),
            number(tail.squared_coefficient_of_variation),
            number(100.0 * tail.top_1_percent_share),
            number(100.0 * tail.top_0_1_percent_share),
            number(tail.pareto_index),
            number(tail.pareto_r2),
        ];
        let delays = tail.delays.map(|of| number(of.delay));
        let cells = cells.into_iter().chain(delays);
        let _ =
            write!(rows, "<tr><th>{}</th>{}</tr>", escape(&one.resource), elements("td", cells));
    }
    let heads = [
        "",
        "median",
        "90 %",
        "99 %",
        "99.9 %",
        "most",
        "C²",
        "top 1 %",
        "top 0.1 %",
        "Pareto α",
        "R²",
    ];
    let loads = description.consumption.first().map_or([].as_slice(), |one| &one.tail.delays);
    let loads = loads.iter().map(|of| format!("delay at {} %", number(100.0 * of.load)));
    let heads = heads.into_iter().map(str::to_owned).chain(loads);
    let content = format!(
        "{}<table><tr>{}</tr>{rows}</table>",
        plot("hours of a job", "share of jobs above", Axis::Decades, layers)
            .figure("The share of jobs that request more than a number of resource-hours"),
        elements("th", heads)
    );
    let note = format!(
        "The share of jobs that request more than a number of resource-hours. Dashed: the Pareto distribution of the best fit. The correlation of core-hours and GiB-hours is {}. The delays are the mean queueing delays of one server that is busy for this share of the time, in mean sizes of jobs; at 50 %, it is 1 for exponential sizes.",
        number(description.cpu_memory_correlation)
    );
    section(body, "Consumption", &note, &content);
}

fn arrivals(description: &Description, body: &mut String) {
    let gaps = line("", "c0", &description.inter_arrival.ccdf);
    let gaps = plot("seconds between submissions", "share above", Axis::Decades, vec![gaps]);
    let by_tier =
        |(at, tier): (usize, &LogTier)| line(&tier.tier, &format!("c{}", at % 8), &tier.ccdf);
    let rates = description.tiers.iter().enumerate().map(by_tier).collect();
    let rates = plot("jobs submitted in an hour", "share of hours above", Axis::Decades, rates);
    let content = format!(
        "{}{}",
        gaps.figure("The share of times between submissions above a number of seconds"),
        rates.figure("The share of hours with more than a number of submissions, by tier")
    );
    let note = "The times between two submissions, and the submissions in an hour by tier.";
    section(body, "Arrivals", note, &content);
}

fn tiers(description: &Description, body: &mut String) {
    let layer = |(at, tier): (usize, &LogTier)| {
        Layer::new(&tier.tier, &format!("c{}", at % 8), Mark::Steps(tier.usage.clone()))
    };
    let layers = description.tiers.iter().enumerate().map(layer).collect();
    let row = |tier: &LogTier| {
        let cells = [
            tier.jobs.to_string(),
            number(100.0 * tier.share),
            number(tier.mean_per_hour),
            number(tier.per_hour.p50),
            number(tier.per_hour.p90),
            number(tier.per_hour.max),
        ];
        format!("<tr><th>{}</th>{}</tr>", escape(&tier.tier), elements("td", cells))
    };
    let heads = ["", "jobs", "% of hours", "mean an hour", "median", "90 %", "most"];
    let content = format!(
        "{}<table><tr>{}</tr>{}</table>",
        plot("time", "accelerators, or cores", Axis::Time, layers)
            .figure("Resources that jobs request over time, by tier"),
        elements("th", heads),
        description.tiers.iter().map(row).collect::<String>()
    );
    let note = "What jobs request if each runs from its submission, by tier.";
    section(body, "Tiers", note, &content);
}

/// Adds the scheduling delays, which only recorded histories have.
fn scheduling_delays(description: &Description, body: &mut String) {
    let delays = &description.scheduling_delays;
    if delays.is_empty() {
        return;
    }
    let layer =
        |(at, one): (usize, &TierDelays)| line(&one.tier, &format!("c{}", at % 8), &one.ccdf);
    let layers = delays.iter().enumerate().map(layer).collect();
    let row = |one: &TierDelays| {
        let p = &one.percentiles;
        let seconds = [p.p50, p.p90, p.p99, p.max].map(number);
        let cells = [one.pods.to_string()].into_iter().chain(seconds);
        format!("<tr><th>{}</th>{}</tr>", escape(&one.tier), elements("td", cells))
    };
    let content = format!(
        "{}<table><tr>{}</tr>{}</table>",
        plot("seconds", "share of pods above", Axis::Decades, layers)
            .figure("The share of pods that waited longer than a number of seconds, by tier"),
        elements("th", ["", "pods", "median", "90 %", "99 %", "most"]),
        delays.iter().map(row).collect::<String>()
    );
    let note = "The time from the creation of a pod to its start, by tier.";
    section(body, "Scheduling delays", note, &content);
}

/// Formats a figure, or a dash if the log is too short to compute it.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".into(),
        large if large >= 10.0 => format!("{value:.0}"),
        small if small > 0.0 && small < 0.001 => format!("{value:.0e}"),
        _ => format!("{value:.3}"),
    }
}
