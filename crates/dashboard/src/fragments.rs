//! The parts of the page that are updated, each with the identifier of its element.

use std::fmt::Write as _;

use placeholders::{Reason, Step};
use report::{clock, day, elements, escape, grouped};

use super::board::{Captions, Decision, State};
use super::choice::Choice;
use super::plots;
use super::series::Range;
use super::view::{Acting, BucketView, CURVES, Figure, PolicyView, Unit};

/// The parts of the page, in their order: the identifier of each, and what it contains.
pub(super) fn fragments(
    captions: &Captions,
    state: &State,
    choice: &Choice,
) -> Vec<(&'static str, String)> {
    let policy = choice.policy(state);
    let bucket = policy.and_then(|policy| Some((policy, choice.bucket(policy)?)));
    vec![
        ("clock", escape(&moment(state))),
        ("headline", escape(&state.headline).replace('\n', "<br>")),
        ("ranges", ranges(choice)),
        ("curves", curves(captions, state, choice)),
        ("figures", figures(state) + &if_acted(state) + &planned(state)),
        ("choices", choices(state, choice)),
        (
            "bucket",
            bucket.map_or_else(nothing, |(policy, shown)| {
                plots::bucket(policy, shown, choice.range, state.now)
            }),
        ),
        (
            "why",
            bucket.map_or_else(String::new, |(policy, bucket)| why(policy.view.acting, bucket)),
        ),
        ("weights", bucket.map_or_else(String::new, |(_, bucket)| weights(bucket))),
        ("faults", faults(state)),
        ("decisions", decisions(state)),
    ]
}

fn nothing() -> String {
    "<p>There is no decision yet.</p>".into()
}

fn moment(state: &State) -> String {
    if state.policies.is_empty() || state.now == 0 {
        return "waiting for the first turn".into();
    }
    format!("{} {}", day(state.now), clock(state.now))
}

/// A link that is marked if it is selected.
fn link(id: &str, choice: &Choice, text: &str, is_selected: bool) -> String {
    let current = if is_selected { " aria-current=\"true\"" } else { "" };
    format!(
        "<a id=\"{}\" href=\"{}\"{current}>{}</a>",
        escape(id),
        escape(&choice.address()),
        escape(text)
    )
}

fn ranges(choice: &Choice) -> String {
    let entry = |range: Range| {
        let (id, text) = range.names();
        link(id, &Choice { range, ..choice.clone() }, text, range == choice.range)
    };
    Range::ALL.map(entry).concat()
}

/// Links to all policies, and to the buckets of the selected one.
fn choices(state: &State, choice: &Choice) -> String {
    let Some(shown) = choice.policy(state) else { return String::new() };
    let mut html = String::from("<p class=\"links\"><span>Policy</span>");
    for view in state.policies.iter().map(|policy| &policy.view) {
        let other = Choice { policy: Some(view.name.clone()), ..choice.clone() };
        html += &link(
            &format!("policy {}", view.name),
            &other,
            &with_mode(view),
            view.name == shown.view.name,
        );
    }
    html += "</p><p class=\"links\"><span>Bucket</span>";
    let bucket = choice.bucket(shown).map(|bucket| bucket.name.as_str());
    for BucketView { name, .. } in &shown.view.buckets {
        let other = Choice { bucket: Some(name.clone()), ..choice.clone() };
        html += &link(&format!("bucket {name}"), &other, name, Some(name.as_str()) == bucket);
    }
    html + "</p>"
}

/// The name of a policy with its mode.
fn with_mode(view: &PolicyView) -> String {
    let mode = view.acting.map(|acting| format!(" ({})", acting.mode()));
    view.name.clone() + &mode.unwrap_or_default()
}

fn curves(captions: &Captions, state: &State, choice: &Choice) -> String {
    let one = |at: usize| {
        let title = escape(captions.curves[at].title);
        let plot = plots::curve(captions, at, &state.policies, choice.range, state.now);
        format!("<div><h3>{title}</h3>{plot}</div>")
    };
    (0..CURVES).map(one).collect()
}

/// The figures as a table with one column for each policy.
fn figures(state: &State) -> String {
    let views = || state.policies.iter().map(|policy| &policy.view);
    let Some(first) = views().find(|view| !view.figures.is_empty()) else {
        return "<p>There is no figure yet.</p>".into();
    };
    let names = state.policies.iter().enumerate().map(|(at, policy)| {
        format!(
            "<i class=\"swatch {}\"></i>{}",
            plots::colour(at),
            escape(&with_mode(&policy.view))
        )
    });
    let mut html = format!(
        "<table class=\"glance\"><thead><tr><td></td>{}</tr></thead><tbody>",
        elements("th", names)
    );
    for Figure { name, meaning, .. } in &first.figures {
        let cells = views().map(|view| {
            let of_view = view.figures.iter().find(|figure| figure.name == *name);
            of_view.map_or_else(|| "–".into(), text)
        });
        let _ = write!(
            html,
            "<tr><th>{}<small>{}</small></th>{}</tr>",
            escape(name),
            escape(meaning),
            elements("td", cells)
        );
    }
    html + "</tbody></table>"
}

/// What would have happened if the policies that only report had acted.
fn if_acted(state: &State) -> String {
    let views = state.policies.iter().map(|policy| &policy.view);
    let known = views.filter_map(|view| Some((&view.name, view.if_acted.as_ref()?)));
    let paragraph = |(name, text): (&String, &String)| {
        format!("<p><b>If {} had acted:</b> {}</p>", escape(name), escape(text))
    };
    known.map(paragraph).collect()
}

/// The pods that will come, as they were announced.
fn planned(state: &State) -> String {
    let all = state.policies.iter().flat_map(|policy| &policy.view.planned);
    let item = |(name, text): &(String, String)| {
        format!("<li><b>{}</b> {}</li>", escape(name), escape(text))
    };
    let items: String = all.map(item).collect();
    if items.is_empty() { items } else { format!("<h3>Planned demand</h3><ul>{items}</ul>") }
}

fn text(figure: &Figure) -> String {
    match figure.unit {
        _ if !figure.value.is_finite() => "–".into(),
        Unit::Count | Unit::Minutes => grouped(figure.value),
        Unit::Dollars if figure.value.abs() < 100.0 => format!("${:.2}", figure.value),
        Unit::Dollars => format!("${}", grouped(figure.value)),
        Unit::Share => format!("{:.1}\u{a0}%", 100.0 * figure.value),
    }
}

/// The numbers of a bucket, each with its reason.
fn why(acting: Option<Acting>, bucket: &BucketView) -> String {
    let BucketView { price, demand, announced, target, placeholders, ready, launching, .. } =
        bucket;
    let mut rows = vec![
        ("demand", format!("{demand} nodes, {announced} more announced")),
        ("nodes", format!("{ready} ready, {launching} launching")),
    ];
    if let Some([middle, high, highest]) = bucket.band {
        let held = bucket.held.unwrap_or(0);
        rows.push((
            "forecast",
            format!(
                "{middle} new nodes at the median, {high} at 90 %, {highest} at 99 %; the policy selects {held}"
            ),
        ));
    }
    if !price.is_empty() {
        rows.push(("price", price.clone()));
    }
    rows.push(("placeholders", format!("{placeholders} stand, the target is {target}")));
    rows.extend(acting.map(|acting| ("mode", acting.sentence().into())));
    let mut html = String::from("<dl>");
    for (term, text) in rows {
        let _ = write!(html, "<dt>{term}</dt><dd>{}</dd>", escape(&text));
    }
    html += "</dl>";
    if bucket.steps.is_empty() {
        return html + "<p>This policy holds no placeholders.</p>";
    }
    html += "<ol class=\"steps\">";
    for Step { reason, target } in &bucket.steps {
        let _ = write!(
            html,
            "<li><b>{target}</b> {} <code>{}</code></li>",
            escape(reason.sentence()),
            reason.label()
        );
    }
    html + "</ol>"
}

/// The most experts that are listed. The others have little weight together.
const EXPERTS_MAX: usize = 8;

/// The weights of the ensemble's experts, and the one that carries.
fn weights(bucket: &BucketView) -> String {
    let mut html = match bucket.carrier {
        None => String::from(
            "<p>No expert carries: the policy uses no ensemble, its expression changed the number, or there is too little history.</p>",
        ),
        Some(carrier) => {
            let quantile = carrier.quantile.map_or(String::new(), |q| format!(":{q}"));
            format!(
                "<p><b>{}{quantile}</b> carries. Following it would have cost ${:.2} a day for waiting, idling and launching, and holding no placeholders ${:.2}.</p>",
                escape(carrier.method),
                carrier.dollars,
                carrier.dollars_without
            )
        }
    };
    if bucket.weights.is_empty() {
        return html;
    }
    html += "<table><thead><tr><th>expert</th><th>weight</th><td></td></tr></thead><tbody>";
    for (name, weight) in bucket.weights.iter().take(EXPERTS_MAX) {
        let _ = write!(
            html,
            "<tr><th>{}</th><td>{:.1}\u{a0}%</td><td><meter value=\"{weight:.3}\" aria-hidden=\"true\"></meter></td></tr>",
            escape(name),
            100.0 * weight
        );
    }
    let others = bucket.weights.iter().skip(EXPERTS_MAX);
    let (count, sum) = others.fold((0, 0.0), |(count, sum), (_, weight)| (count + 1, sum + weight));
    if count > 0 {
        let _ = write!(
            html,
            "<tr><th>{count} others</th><td>{:.1}\u{a0}%</td><td></td></tr>",
            100.0 * sum
        );
    }
    html + "</tbody></table>"
}

fn faults(state: &State) -> String {
    let mut html = String::new();
    for policy in &state.policies {
        for fault in &policy.view.faults {
            let _ = write!(
                html,
                "<li><b>{}</b> of {}: {} <span class=\"remedy\">{}</span></li>",
                fault.cause,
                escape(&policy.view.name),
                escape(&fault.message),
                escape(fault.remedy)
            );
        }
    }
    if html.is_empty() { "<p>There are no faults.</p>".into() } else { format!("<ul>{html}</ul>") }
}

fn decisions(state: &State) -> String {
    if state.decisions.is_empty() {
        return nothing();
    }
    let head = ["time", "bucket", "placeholders", "why"];
    let mut html = format!("<table><thead><tr>{}</tr></thead><tbody>", elements("th", head));
    for decision in &state.decisions {
        let Decision { time, policy, bucket, before, after, why } = &**decision;
        let reason = why.last().map_or("", |step| step.reason.sentence());
        let is_forecast = why.last().is_some_and(|step| step.reason == Reason::Forecast);
        let reason = if is_forecast { "forecast" } else { reason };
        let _ = write!(
            html,
            "<tr><th>{} {}</th><td>{}<small>{}</small></td><td>{before} → {after}</td><td>{}</td></tr>",
            day(*time),
            clock(*time),
            escape(bucket),
            escape(policy),
            escape(reason)
        );
    }
    html + "</tbody></table>"
}
