//! The frame of an HTML report.

use std::fmt::{Display, Write as _};

use serde::Serialize;

use super::plot::escape;

/// The style sheet of plots, which a separate SVG file needs too.
pub const PLOT_STYLE: &str = include_str!("plot.css");
/// The style sheet of pages.
pub const PAGE_STYLE: &str = include_str!("page.css");

/// Returns a whole page with this body, followed by the options that repeat the run.
pub fn whole(body: &str, options: &impl Serialize, source: &str) -> String {
    // A line never breaks between a number and its percent sign.
    let mut body = body.replace(" %", "\u{a0}%");
    let text = serde_json::to_string_pretty(options).unwrap_or_default();
    let _ = write!(
        body,
        "<details><summary>All options of this run</summary><pre>{}</pre></details>",
        escape(&text)
    );
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Prophet: {}</title><style>{PLOT_STYLE}{PAGE_STYLE}</style></head><body><main>{body}</main></body></html>\n",
        escape(source)
    )
}

/// Appends a section. `title` is escaped; `note` and `content` are HTML.
pub fn section(body: &mut String, title: &str, note: &str, content: &str) {
    let _ = write!(body, "<section><h2>{}</h2><p>{note}</p>{content}</section>", escape(title));
}

/// Returns each text in an element of its own, such as the cells of a row. The texts are HTML.
pub fn elements(tag: &str, texts: impl IntoIterator<Item = impl Display>) -> String {
    let mut html = String::new();
    for text in texts {
        let _ = write!(html, "<{tag}>{text}</{tag}>");
    }
    html
}
