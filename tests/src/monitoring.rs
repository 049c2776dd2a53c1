//! The alerts and the dashboard of the chart.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{built, helm};

/// The rule groups of the chart's `PrometheusRule`, as in a file of Prometheus.
///
/// # Errors
/// The chart cannot be rendered.
pub fn rules() -> Result<Value> {
    let objects = helm::rendered(&["prometheusRule.enabled=true"])?;
    let rule = objects.into_iter().find(|object| object["kind"] == "PrometheusRule");
    Ok(rule.context("the chart has no PrometheusRule")?["spec"].clone())
}

/// The alerts.
///
/// # Errors
/// The chart cannot be rendered.
pub fn alerts() -> Result<Vec<Value>> {
    Ok(rules()?["groups"][0]["rules"].as_array().context("there are no rules")?.clone())
}

/// Runs promtool in a folder. Returns whether it succeeded, and what it printed.
///
/// # Errors
/// It was not built, or cannot be started.
pub fn promtool(folder: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    let mut promtool = Command::new(built::control_plane("bin/promtool")?);
    let output = promtool.args(arguments).current_dir(folder).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), text(&output.stdout) + &text(&output.stderr)))
}

/// The dashboard of Grafana.
///
/// # Errors
/// The chart cannot be rendered, or the dashboard is not JSON.
pub fn dashboard() -> Result<Value> {
    let objects = helm::rendered(&["grafanaDashboard.enabled=true"])?;
    let map = objects.iter().find_map(|object| object["data"]["prophet.json"].as_str());
    Ok(serde_json::from_str(map.context("the chart has no dashboard")?)?)
}

/// The queries of the dashboard: the title of the panel, and the expression with the variables of
/// Grafana replaced. They select all policies and buckets of a day, and rates are of 5 minutes.
///
/// # Errors
/// The chart cannot be rendered, or a query has another variable.
pub fn queries() -> Result<Vec<(String, String)>> {
    let dashboard = dashboard()?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        let title = panel["title"].as_str().context("a panel has no title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().context("a target has no expression")?;
            let expression = expression
                .replace("$__rate_interval", "5m")
                .replace("$__range", "1d")
                .replace("$cluster", ".*")
                .replace("$policy", ".*")
                .replace("$bucket", ".*");
            ensure!(!expression.contains('$'), "{title}: an unknown variable: {expression}");
            queries.push((title.to_owned(), expression));
        }
    }
    Ok(queries)
}

/// The expressions of the alerts, and of the panels and variables of the dashboard.
///
/// # Errors
/// The chart cannot be rendered.
pub fn expressions() -> Result<Vec<String>> {
    let (alerts, dashboard) = (alerts()?, dashboard()?);
    let of_alerts = alerts.iter().map(|alert| &alert["expr"]);
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let variables = dashboard["templating"]["list"].as_array().into_iter().flatten();
    let all = of_alerts
        .chain(targets.map(|target| &target["expr"]))
        .chain(variables.map(|variable| &variable["query"]["query"]));
    Ok(all.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The names of Prophet's metrics in an expression.
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c| !of_name(c));
    words.filter(|word| word.starts_with("prophet_")).map(str::to_owned).collect()
}
