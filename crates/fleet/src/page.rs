//! The advice for all clusters, as a page.

use std::fmt::Write as _;

use report::{escape, section, whole};

use super::joined::{ClusterAdvice, FleetAdvice};
use super::plan::Plan;
use super::text::NOTE;

/// The heads of the table.
const HEADS: [&str; 9] = [
    "cluster",
    "days<br>checked",
    "Prophet",
    "waited<br>before h",
    "waited<br>after h",
    "bill<br>before $",
    "bill<br>more %",
    "cost<br>%",
    "setting",
];

/// The script that sorts the table.
const SORT: &str = include_str!("sort.js");

/// Returns the advice as one self-contained HTML page.
pub fn page(advice: &FleetAdvice, plan: &Plan) -> String {
    let mut body = String::from("<h1>Where does Prophet pay off?</h1>");
    let _ = write!(body, "<p class=\"lead\">{}</p>", escape(&advice.totals_sentence()));
    if let Some(sentence) = advice.missing_sentence() {
        let _ = write!(body, "<p>{}</p>", escape(&sentence));
    }
    let note = format!("{NOTE} A click on the head of a column sorts by it.");
    section(&mut body, "All clusters", &escape(&note), &table(advice));
    for (at, cluster) in advice.clusters.iter().enumerate() {
        of_cluster(&mut body, at, cluster);
    }
    let _ = write!(body, "<script>\n{SORT}</script>");
    whole(&body, plan, "all clusters")
}

fn table(advice: &FleetAdvice) -> String {
    let mut html = String::from("<div class=\"wide\"><table id=\"clusters\"><thead><tr>");
    for head in HEADS {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html += "</tr></thead><tbody>";
    for (at, cluster) in advice.clusters.iter().enumerate() {
        let name = escape(&cluster.name);
        let _ = write!(html, "<tr><th scope=\"row\"><a href=\"#c{at}\">{name}</a></th>");
        for cell in cluster.cells() {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        html += "</tr>";
    }
    html + "</tbody></table></div>"
}

/// Appends the section of a cluster: its advice, what is odd, and its picture.
fn of_cluster(body: &mut String, at: usize, cluster: &ClusterAdvice) {
    let mut text = String::new();
    for sentence in cluster.advice.iter().flat_map(advice::Advice::sentences) {
        let _ = write!(text, "<p>{}</p>", escape(&sentence));
    }
    if !cluster.odd.is_empty() {
        let _ = write!(text, "<p>Odd: {}.</p>", escape(&cluster.odd.join("; ")));
    }
    if let Some(advice) = &cluster.advice {
        text += &advice::picture(advice);
    }
    let _ =
        write!(body, "<section id=\"c{at}\"><h2>{}</h2>{text}</section>", escape(&cluster.name));
}
