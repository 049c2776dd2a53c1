//! The frame of the page. The fragments are in it from the start, so it also works without a
//! script.

use report::{PAGE_STYLE, PLOT_STYLE, escape};

use super::board::Captions;

/// The style sheet of the page.
pub(super) fn style() -> String {
    [PLOT_STYLE, PAGE_STYLE, include_str!("dashboard.css")].concat()
}

/// The script of the page.
pub(super) const SCRIPT: &str = include_str!("live.js");

/// The icon of the page.
pub(super) const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><path d=\"M1 13h3V8h4V4h4V2h3\" fill=\"none\" stroke=\"#0b66c3\" stroke-width=\"2\"/></svg>\n";

/// Returns the page with these fragments.
pub(super) fn page(captions: &Captions, fragments: &[(&'static str, String)]) -> String {
    let content = |id: &str| {
        let found = fragments.iter().find(|(known, _)| *known == id);
        found.map_or("", |(_, html)| html.as_str())
    };
    let part = |tag: &str, id: &str| format!("<{tag} id=\"{id}\">{}</{tag}>", content(id));
    let section = |title: &str, note: &str, parts: &str| {
        format!("<section><h2>{}</h2><p>{}</p>{parts}</section>", escape(title), escape(note))
    };
    let scrolled = |id: &str, name: &str| {
        format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">{}</div>",
            part("div", id)
        )
    };
    let title = escape(captions.title);
    let sections = [
        section(
            "Policies side by side",
            "",
            &format!(
                "<div id=\"curves\" class=\"tiles\">{}</div>{}",
                content("curves"),
                scrolled("figures", "Figures")
            ),
        ),
        section(
            "One bucket",
            captions.nodes,
            &[part("nav", "choices"), part("div", "bucket")].concat(),
        ),
        section(
            "Why this number",
            "The steps that led to the target, in order.",
            &part("div", "why"),
        ),
        section(
            "The ensemble",
            "Each expert is a method at a quantile, or a rule. Its weight follows from what it would have cost.",
            &part("div", "weights"),
        ),
        section("Faults", "", &part("div", "faults")),
        section(
            "The last 100 decisions",
            "A decision changes the planned number of placeholders of a bucket. In the mode Observe, none are created.",
            &scrolled("decisions", "Decisions"),
        ),
    ];
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><link rel=\"icon\" href=\"/icon.svg\"><link rel=\"stylesheet\" href=\"/style.css\"><script src=\"/live.js\" defer></script></head><body><a class=\"skip\" href=\"#main\">Skip to the policies</a><main id=\"main\"><h1>{title}</h1><p>{}</p><p class=\"bar\">{} <span id=\"state\" role=\"status\">not live</span></p>{}<nav class=\"links\" aria-label=\"Time\">{}</nav>{}<noscript><p>Without JavaScript the page does not update: reload it.</p></noscript></main></body></html>\n",
        escape(captions.lead),
        part("b", "clock"),
        part("p", "headline").replace("<p ", "<p class=\"lead\" "),
        part("span", "ranges"),
        sections.concat()
    )
}
