//! The responses to the requests of a browser.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::board::Dashboard;
use super::choice::Choice;
use super::fragments::fragments;
use super::page::{ICON, SCRIPT, page, style};
use crate::http::{Events, Request, Response};

/// The pause between two updates of a page: four updates a second are a moving picture.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest time without an event, so that a browser that has gone is noticed.
const SILENCE: Duration = Duration::from_secs(15);

const HTML: &str = "text/html; charset=utf-8";

/// Responds to a request. Returns `None` for a path that is not part of the dashboard.
pub fn respond(dashboard: &Arc<Dashboard>, request: &Request) -> Option<Response> {
    let choice = Choice::of(request, dashboard.captions.range);
    let (kind, text) = match request.path.as_str() {
        "/" => {
            let fragments = fragments(&dashboard.captions, &dashboard.state(), &choice);
            (HTML, page(&dashboard.captions, &fragments))
        }
        "/style.css" => ("text/css; charset=utf-8", style()),
        "/live.js" => ("text/javascript; charset=utf-8", SCRIPT.into()),
        "/icon.svg" => ("image/svg+xml", ICON.into()),
        "/events" => return Some(Response::Events(events(Arc::clone(dashboard), choice))),
        _ => return None,
    };
    Some(Response::Text(200, kind, text))
}

/// Sends all fragments at first, and then those that changed.
fn events(dashboard: Arc<Dashboard>, choice: Choice) -> Events {
    let (mut version, mut sent) = (u64::MAX, Vec::new());
    Box::new(move || {
        // The first event is sent at once.
        if version != u64::MAX {
            std::thread::sleep(PAUSE);
        }
        let state = dashboard.wait(version, SILENCE);
        version = state.version;
        let fragments = fragments(&dashboard.captions, &state, &choice);
        let mut text = String::from(": alive\n\n");
        for (id, html) in fragments.iter().filter(|fragment| !sent.contains(*fragment)) {
            // A stream of events would also end a line at a carriage return.
            let html = html.replace('\r', "").replace('\n', "\ndata: ");
            let _ = write!(text, "event: fragment\ndata: {id}\ndata: {html}\n\n");
        }
        sent = fragments;
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acting, BucketView, Captions, Curve, FaultView, PolicyView, Range};

    fn dashboard() -> Arc<Dashboard> {
        let curve = Curve { title: "nodes", unit: "nodes" };
        let captions = Captions {
            title: "<Policies>",
            lead: "",
            curves: [curve; 4],
            nodes: "",
            range: Range::Hour,
        };
        let dashboard = Dashboard::new(captions);
        dashboard.note(view(540, 0));
        dashboard.note(view(600, 2));
        Arc::new(dashboard)
    }

    fn view(time: i64, target: u64) -> PolicyView {
        PolicyView {
            name: "team-a/batch".into(),
            acting: Some(Acting::Observes),
            time,
            buckets: vec![BucketView { name: "m5.<b>".into(), target, ..BucketView::default() }],
            faults: vec![FaultView { cause: "Groups", message: "<i>".into(), remedy: "Wait." }],
            ..PolicyView::default()
        }
    }

    fn text(dashboard: &Arc<Dashboard>, path: &str, query: &[(&str, &str)]) -> String {
        let query = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        match respond(dashboard, &Request { path: path.into(), query, ..Request::default() }) {
            Some(Response::Text(200, _, text)) => text,
            _ => panic!("{path} has no text"),
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_escapes_names() {
        let page = text(&dashboard(), "/", &[("range", "day"), ("policy", "none")]);
        for inline in
            ["<style", "style=", "onclick", "http://", "https://", "<b>\"", "<i>\"", "m5.<b>"]
        {
            assert!(!page.contains(inline), "{inline} is in {page}");
        }
        assert_eq!(page.matches("<script").count(), 1);
        for part in ["m5.&lt;b&gt;", "0 → 2", "&lt;i&gt;", "Wait.", "&lt;Policies&gt;"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let selected = "id=\"day\" href=\"/?range=day&amp;policy=none\" aria-current=\"true\"";
        assert!(page.contains(selected), "{page}");
    }

    #[test]
    fn the_page_has_the_mode_of_each_policy() {
        let dashboard = dashboard();
        let acts =
            PolicyView { name: "team-b/batch".into(), acting: Some(Acting::Acts), ..view(660, 1) };
        dashboard.note(acts);
        let page = text(&dashboard, "/", &[("policy", "team-a/batch")]);
        for part in
            [">team-a/batch (Observe)<", ">team-b/batch (Act)<", "creates no placeholders, and the"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn each_event_has_the_fragments_that_changed() {
        let dashboard = dashboard();
        let Some(Response::Events(mut next)) =
            respond(&dashboard, &Request { path: "/events".into(), ..Request::default() })
        else {
            panic!("no events");
        };
        let mut ids = || {
            let text = next().expect("an event");
            let events = text
                .split("\n\n")
                .filter_map(|event| event.strip_prefix("event: fragment\ndata: "));
            events.filter_map(|event| Some(event.lines().next()?.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(ids().len(), 11);
        dashboard.note(view(660, 2));
        let changed = ids();
        assert!(
            changed.contains(&"clock".into()) && !changed.contains(&"decisions".into()),
            "{changed:?}"
        );
        dashboard.note(view(720, 3));
        assert!(ids().contains(&"decisions".into()));
    }
}
