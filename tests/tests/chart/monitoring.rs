//! The alerts and the dashboard. That their metrics exist is tested on a running controller, in
//! `placeholders/chart.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::monitoring;

/// Unit tests of the alerts, in the format of promtool: series, and the alerts that they fire.
const UNIT_TESTS: &str = include_str!("alerts.yaml");

fn source(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn names() -> BTreeSet<String> {
    let alerts = monitoring::alerts().unwrap();
    alerts.iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn alerts_fire_on_these_series_and_on_no_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.json"), monitoring::rules().unwrap().to_string()).unwrap();
    fs::write(folder.path().join("alerts.yaml"), UNIT_TESTS).unwrap();
    for arguments in [["check", "rules", "rules.json"], ["test", "rules", "alerts.yaml"]] {
        let (succeeded, printed) = monitoring::promtool(folder.path(), &arguments).unwrap();
        assert!(succeeded, "{printed}");
    }
}

#[test]
fn every_alert_has_series_that_fire_it_and_series_that_do_not() {
    let tests: Value = serde_saphyr::from_str(UNIT_TESTS).unwrap();
    let groups = tests["tests"].as_array().unwrap();
    let cases: Vec<&Value> =
        groups.iter().flat_map(|group| group["alert_rule_test"].as_array().unwrap()).collect();
    for name in names() {
        let of = cases.iter().filter(|case| case["alertname"] == name.as_str());
        let fires = |case: &Value| !case["exp_alerts"].as_array().is_none_or(Vec::is_empty);
        let (firing, silent): (Vec<&Value>, Vec<&Value>) = of.partition(|case| fires(case));
        assert!(!firing.is_empty(), "{name} never fires in the unit tests");
        assert!(!silent.is_empty(), "{name} always fires in the unit tests");
    }
}

#[test]
fn every_alert_has_a_section_in_the_runbook() {
    let page = source("docs/runbooks.md");
    let sections: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## Prophet"))
        .map(|rest| format!("Prophet{rest}"))
        .collect();
    assert_eq!(sections, names());
    for alert in monitoring::alerts().unwrap() {
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let name = alert["alert"].as_str().unwrap().to_lowercase();
        assert!(url.ends_with(&format!("docs/runbooks.md#{name}")), "{url}");
    }
}

/// Each cause of a policy's degradation has one alert, and the alerts have no other reasons.
#[test]
fn every_cause_of_a_degradation_has_one_alert() {
    let outcome = source("crates/controller/src/outcome.rs");
    let label = outcome.split("impl Cause").nth(1).unwrap().split("fn label").nth(1).unwrap();
    let label = label.split(" fn ").next().unwrap();
    let causes = label.lines().filter_map(|line| line.split_once("=> \""));
    let mut causes: Vec<&str> = causes.map(|(_, rest)| rest.split('"').next().unwrap()).collect();
    let expressions = monitoring::alerts().unwrap();
    let of_causes = expressions
        .iter()
        .filter_map(|alert| alert["expr"].as_str()?.split_once("prophet_degraded{reason="));
    let mut alerted: Vec<&str> =
        of_causes.flat_map(|(_, rest)| rest.split('"').nth(1).unwrap().split('|')).collect();
    causes.sort_unstable();
    alerted.sort_unstable();
    assert_eq!(alerted, causes);
}

/// Panels have different numbers, lie within the width of 24, and do not overlap.
#[test]
fn the_panels_of_the_dashboard_lie_beside_each_other() {
    let dashboard = monitoring::dashboard().unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: the id is taken");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title} has no query");
        let of = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{title} is too wide");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "{title} overlaps another panel");
            }
        }
    }
}

/// Prometheus parses each query of the dashboard, with the variables of Grafana replaced.
#[test]
fn the_queries_of_the_dashboard_are_valid() {
    let queries = monitoring::queries().unwrap();
    let rules: Vec<Value> = queries
        .iter()
        .enumerate()
        .map(|(number, (_, expression))| {
            serde_json::json!({"record": format!("query_{number}"), "expr": expression})
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let groups = serde_json::json!({"groups": [{"name": "queries", "rules": rules}]});
    fs::write(folder.path().join("queries.json"), groups.to_string()).unwrap();
    let (succeeded, printed) =
        monitoring::promtool(folder.path(), &["check", "rules", "queries.json"]).unwrap();
    assert!(succeeded, "{printed}");
}
