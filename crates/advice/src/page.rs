//! The advice as a page.

use std::fmt::Write as _;

use report::{Axis, Layer, Mark, Names, Plot, elements, escape, section, whole};
use simulator::SimulationSettings;

use super::choice::Advice;
use super::totals::Totals;

/// The heads of the table's columns.
const HEADS: [&str; 7] = [
    "pending<br>pod-hours",
    "hidden<br>pods %",
    "launches<br>of first",
    "bill<br>$",
    "bill<br>more %",
    "cost %<br>chosen on",
    "cost %<br>checked",
];

/// Returns the advice as one self-contained HTML page. `policy` is the recommended policy as YAML.
pub fn page(
    advice: &Advice,
    policy: Option<&str>,
    run: &SimulationSettings,
    source: &str,
) -> String {
    let mut body = String::from("<h1>Which setting pays off?</h1>");
    for sentence in advice.sentences() {
        let _ = write!(body, "<p class=\"lead\">{}</p>", escape(&sentence));
    }
    if let Some(policy) = policy {
        let note = "Apply it, and read what it would do, before its mode is changed to Act.";
        section(&mut body, "The policy", note, &format!("<pre>{}</pre>", escape(policy)));
    }
    let note =
        "Lower and further left is better. Each point is a setting, over all evaluated days.";
    section(&mut body, "Waiting against the bill", note, &picture(advice));
    section(&mut body, "All settings", &escape(&advice.note()), &table(advice));
    whole(&body, run, source)
}

fn table(advice: &Advice) -> String {
    let mut rows = String::new();
    for (at, one) in advice.settings.iter().enumerate() {
        let class = if at == advice.chosen { " class=\"strong\"" } else { "" };
        let reference = if one.is_for_clusters { "" } else { " (reference)" };
        let cells = elements("td", advice.cells(one));
        let _ = write!(rows, "<tr{class}><th>{}{reference}</th>{cells}</tr>", escape(&one.name));
    }
    format!(
        "<div class=\"wide\"><table><thead><tr><th>setting</th>{}</tr></thead><tbody>{rows}</tbody></table></div>",
        elements("th", HEADS)
    )
}

/// Returns the picture of waiting against the bill, a point for each setting, as HTML.
pub fn picture(advice: &Advice) -> String {
    let point = |at: usize| {
        let one = &advice.settings[at];
        let all = Totals::sum([&one.chosen_on, &one.checked_on]);
        (all.bill.nodes(), all.pending_pod_hours, one.name.clone())
    };
    let others = (1..advice.settings.len()).filter(|at| *at != advice.chosen).map(point);
    let mut layers = vec![
        Layer::new("", "c3", Mark::Dots(others.collect())),
        Layer::new("", "c1", Mark::Points(vec![point(0)])),
    ];
    if advice.chosen > 0 {
        layers.push(Layer::new("", "c0", Mark::Points(vec![point(advice.chosen)])));
    }
    let plot = Plot {
        x_label: "dollars of nodes".into(),
        y_label: "pending pod-hours".into(),
        x: Axis::Number,
        y_from_zero: true,
        x_end: None,
        names: Names::AtLines,
        height: 360.0,
        layers,
    };
    plot.figure("Pending pod-hours over dollars of nodes, by setting")
}
