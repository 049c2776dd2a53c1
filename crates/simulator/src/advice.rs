//! The choice of instance types for a log: base instances, as in section 4.4 and figure 7 of "A
//! Predictive Autoscaler for Elastic Batch Jobs".
//!
//! A series is the instance types of one family, ascending. Its smallest type is removed one after
//! the other. The base instance is the smallest type that remains once a further removal would
//! raise the scale: the price of the nodes that the jobs occupy without launch latency. The
//! simulator adds what each choice costs with launch latency, and how long jobs wait. These figures
//! do not choose.

use std::fmt::Write as _;

use base::days::within;
use embedder::{Catalog, base};
use instances::{CatalogFault, CatalogFile, InstanceTypeEntry};
use report::{Axis, Layer, Mark, Names, PLOT_STYLE, Plot};
use serde::Serialize;
use traces::Job;

use crate::replay::{Workload, offered};
use crate::{Figures, NamedPolicy, Progress, SimulationSettings, compare};

/// The instance types of one family.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceSeries {
    /// The family, such as `g4dn`.
    pub name: String,
    /// Its instance types, in any order.
    pub types: Vec<InstanceTypeEntry>,
}

/// The choices of one series.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesAdvice {
    /// The family.
    pub series: String,
    /// The base instance; `None` if no job runs on a type of the series.
    pub base: Option<String>,
    /// One choice for each type, ascending: this type and the larger ones are on offer, beside the
    /// other series. Earlier series begin with their base instances, later ones are complete.
    pub choices: Vec<SeriesChoice>,
}

/// The types of a series from the smallest on offer.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesChoice {
    /// The smallest type on offer.
    pub smallest: String,
    /// The nodes of each type on offer, ascending.
    pub nodes: Vec<TypeCount>,
    /// The price of the nodes that jobs occupy without launch latency, of all series, in dollars.
    pub scale_dollars: f64,
    /// The number of jobs in the window that fit no type on offer.
    pub jobs_left_out: usize,
    /// What the simulator adds: the autoscaler alone, and Prophet's default.
    pub policies: Vec<PolicyFigures>,
    /// The mean price of occupied nodes, as (second, dollars per hour), for the picture.
    #[serde(skip)]
    scale: Vec<(f64, f64)>,
}

/// The nodes of a type that jobs occupy without launch latency, within the window.
#[derive(Clone, Debug, Serialize)]
pub struct TypeCount {
    /// The name of the type.
    pub instance_type: String,
    /// The mean over the time of the window.
    pub mean: f64,
    /// The maximum.
    pub peak: u64,
}

/// What a simulation with launch latency computed for one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyFigures {
    /// The name of the policy.
    pub policy: String,
    /// Its figures, as in `prophet simulate`.
    pub figures: Figures,
}

/// The most points of a line of the picture.
const POINTS_MAX: i64 = 300;

/// Removes the smallest types of each series in turn, and simulates every choice over the window
/// `[from, until)`.
///
/// # Errors
/// A type is invalid or is given twice.
pub fn advise(
    jobs: &[Job],
    series: &[InstanceSeries],
    settings: &SimulationSettings,
    window: (i64, i64),
    progress: &Progress<'_>,
) -> Result<Vec<SeriesAdvice>, CatalogFault> {
    let mut left = series.iter().map(ascending).collect::<Result<Vec<_>, _>>()?;
    let mut advice = Vec::new();
    for (at, InstanceSeries { name, .. }) in series.iter().enumerate() {
        let whole = left[at].clone();
        let mut choices = Vec::new();
        for first in 0..whole.len() {
            left[at] = whole[first..].to_vec();
            choices.push(choice(jobs, &left, at, settings, window, progress)?);
        }
        let fewest = choices.first().map_or(0, |choice| choice.jobs_left_out);
        let first = base(choices.len(), |first| choices[first].cost(fewest));
        left[at] = whole[first..].to_vec();
        let used = choices.iter().any(|choice| choice.nodes.iter().any(|count| count.peak > 0));
        let base = used.then(|| whole[first].name.clone());
        advice.push(SeriesAdvice { series: name.clone(), base, choices });
    }
    Ok(advice)
}

/// The types in the order of a catalog: by accelerators, CPU and memory.
fn ascending(series: &InstanceSeries) -> Result<Vec<InstanceTypeEntry>, CatalogFault> {
    let catalog = CatalogFile::new(series.types.clone()).catalog()?;
    let entry = |name: &String| series.types.iter().find(|entry| entry.name == *name).cloned();
    Ok(catalog.buckets().iter().filter_map(|bucket| entry(&bucket.name)).collect())
}

fn choice(
    jobs: &[Job],
    left: &[Vec<InstanceTypeEntry>],
    at: usize,
    settings: &SimulationSettings,
    window: (i64, i64),
    progress: &Progress<'_>,
) -> Result<SeriesChoice, CatalogFault> {
    let prices = settings.catalog.as_ref().map(|file| file.prices.clone()).unwrap_or_default();
    let file = CatalogFile { instance_types: left.concat(), prices };
    let catalog = file.catalog()?;
    let workload = Workload::new(jobs, &catalog);
    let smallest = left[at][0].name.clone();
    let settings = SimulationSettings {
        catalog: Some(file),
        policies: vec![NamedPolicy::DEFAULT],
        ..settings.clone()
    };
    let named = |policy: &str, share: f64| {
        (progress.advanced)(&format!("{policy} from {smallest}"), share);
    };
    let progress = Progress { advanced: &named, ..*progress };
    let compared = compare(&workload, &catalog, &settings, window, false, &progress);
    let policies = compared.policies.into_iter().map(|result| PolicyFigures {
        policy: result.named_policy.to_string(),
        figures: result.figures,
    });
    let within_window = |job: &&Job| (window.0..window.1).contains(&job.submit);
    let submitted = jobs.iter().filter(within_window).count();
    let scale = Scale::new(&workload, &catalog, &settings, window);
    let of_series = |count: &TypeCount| left[at].iter().any(|e| e.name == count.instance_type);
    Ok(SeriesChoice {
        smallest: smallest.clone(),
        scale_dollars: scale.dollars,
        nodes: scale.counts.into_iter().filter(of_series).collect(),
        jobs_left_out: submitted - workload.jobs_within(window),
        policies: policies.collect(),
        scale: scale.points,
    })
}

impl SeriesChoice {
    /// The cost by which types are removed, in cents. A choice that leaves out more jobs than the
    /// whole series is never better.
    fn cost(&self, fewest_left_out: usize) -> u64 {
        if self.jobs_left_out > fewest_left_out {
            return u64::MAX;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "dollars >= 0")]
        let cents = (100.0 * self.scale_dollars).round() as u64;
        cents
    }

    /// The figures of a policy, by its position.
    fn figures(&self, at: usize) -> Option<&Figures> {
        self.policies.get(at).map(|policy| &policy.figures)
    }
}

/// The nodes that jobs occupy without launch latency, and their price.
pub struct Scale {
    /// The nodes of each bucket.
    pub counts: Vec<TypeCount>,
    /// The price, in dollars.
    pub dollars: f64,
    /// The mean price over time, as (second, dollars per hour).
    points: Vec<(f64, f64)>,
}

impl Scale {
    /// Of the jobs of a workload, on the buckets of a catalog.
    pub fn new(
        workload: &Workload,
        catalog: &Catalog,
        settings: &SimulationSettings,
        window: (i64, i64),
    ) -> Self {
        let series = offered(workload, catalog, settings.scheduler);
        let (from, until) = window;
        let width = ((until - from) / POINTS_MAX).max(3_600);
        let bins: Vec<i64> =
            (0..=(until - from - 1) / width).map(|bin| from + bin * width).collect();
        let mut sums = vec![0.0; bins.len()];
        let (mut counts, mut dollars) = (Vec::new(), 0.0);
        for (bucket, steps) in catalog.buckets().iter().zip(series.buckets) {
            let ends = steps.iter().skip(1).map(|step| step.0).chain([until]);
            let (mut seconds, mut peak) = (0.0, 0);
            let price = bucket.hourly.dollars() / 3_600.0;
            for (&(start, nodes), end) in steps.iter().zip(ends) {
                let held = within(window, start, end);
                if held == 0 || nodes == 0 {
                    continue;
                }
                peak = peak.max(nodes);
                seconds += held as f64 * nodes as f64;
                let first = usize::try_from((start.max(from) - from) / width).unwrap_or(0);
                for (bin, sum) in bins.iter().zip(&mut sums).skip(first) {
                    if *bin >= end {
                        break;
                    }
                    let part = within((*bin, (bin + width).min(until)), start, end);
                    *sum += price * part as f64 * nodes as f64;
                }
            }
            dollars += price * seconds;
            let mean = seconds / (until - from).max(1) as f64;
            counts.push(TypeCount { instance_type: bucket.name.clone(), mean, peak });
        }
        let per_hour = |(bin, sum): (&i64, &f64)| {
            let length = (bin + width).min(until) - bin;
            (*bin as f64, sum * 3_600.0 / length.max(1) as f64)
        };
        Self { counts, dollars, points: bins.iter().zip(&sums).map(per_hour).collect() }
    }
}

impl SeriesAdvice {
    /// The base instance and the larger types, ascending. Empty if no job runs on the series.
    pub fn chosen(&self) -> impl Iterator<Item = &str> {
        let base = self.choices.iter().find(|choice| Some(&choice.smallest) == self.base.as_ref());
        base.into_iter().flat_map(|choice| choice.nodes.iter()).map(|it| it.instance_type.as_str())
    }

    /// The choices as a table: the counts, then dollars and waiting.
    pub fn table(&self) -> String {
        let Self { series, base, choices } = self;
        let mut text = match base {
            Some(base) => format!("{series}: the base instance is {base}\n"),
            None => format!("{series}: no job runs on it\n"),
        };
        if base.is_none() {
            return text;
        }
        let plain = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let width = choices.iter().map(|choice| choice.smallest.len()).max().unwrap_or(0).max(8);
        let types = choices.first().map(|choice| choice.nodes.clone()).unwrap_or_default();
        let _ = write!(text, "\n{:width$}  mean nodes by type\n{:width$}", "", "smallest");
        // A family has up to ten sizes, and a line of the table 100 columns.
        let column = |name: &str| plain(name).len().max(6);
        for TypeCount { instance_type, .. } in &types {
            let column = column(instance_type);
            let _ = write!(text, " {:>column$}", plain(instance_type));
        }
        let _ = writeln!(text, " {:>6} {:>5}", "sum", "peak");
        for choice in choices {
            let _ = write!(text, "{:width$}", choice.smallest);
            for TypeCount { instance_type, .. } in &types {
                let count = choice.nodes.iter().find(|it| it.instance_type == *instance_type);
                let mean = count.map_or("-".into(), |count| format!("{:.2}", count.mean));
                let column = column(instance_type);
                let _ = write!(text, " {mean:>column$}");
            }
            let mean: f64 = choice.nodes.iter().map(|count| count.mean).sum();
            let peak = choice.nodes.iter().map(|count| count.peak).max().unwrap_or(0);
            let _ = writeln!(text, " {mean:>6.2} {peak:>5}");
        }
        let names: Vec<&str> =
            choices[0].policies.iter().map(|policy| policy.policy.as_str()).collect();
        let _ = write!(text, "\n{:width$}  {:>11}", "", "");
        for name in &names {
            let _ = write!(text, "  {name:>11} {:>11} {:>8}", "pending", "pods");
        }
        let _ = write!(text, "\n{:width$}  {:>11}", "smallest", "scale $");
        for _ in &names {
            let _ = write!(text, "  {:>11} {:>11} {:>8}", "dollars", "pod-hours", "hidden %");
        }
        text.push('\n');
        for choice in choices {
            let _ = write!(text, "{:width$}  {:>11.2}", choice.smallest, choice.scale_dollars);
            for at in 0..names.len() {
                let Some(figures) = choice.figures(at) else { continue };
                let _ = write!(
                    text,
                    "  {:>11.0} {:>11.1} {:>8.1}",
                    figures.dollars,
                    figures.pending_pod_hours,
                    100.0 * figures.pods_hidden_share
                );
            }
            let left_out = match choice.jobs_left_out {
                0 => "",
                _ => "  unfit",
            };
            let mark = if Some(&choice.smallest) == base.as_ref() { "  base" } else { "" };
            let _ = writeln!(text, "{mark}{left_out}");
        }
        text
    }

    /// The scale over time, a line for each choice, as an SVG file. `None` if no job runs on the
    /// series.
    pub fn picture(&self) -> Option<String> {
        let base = self.base.as_ref()?;
        let layer = |(at, choice): (usize, &SeriesChoice)| {
            let strong = if choice.smallest == *base { " strong" } else { "" };
            let class = format!("c{}{strong}", at % 8);
            Layer::new(&choice.smallest, &class, Mark::Line(choice.scale.clone()))
        };
        let plot = Plot {
            x_label: format!("time (the base instance of {} is {base})", self.series),
            y_label: "dollars per hour of occupied nodes, by the smallest type on offer".into(),
            x: Axis::Time,
            y_from_zero: true,
            x_end: None,
            names: Names::Legend,
            height: 360.0,
            layers: self.choices.iter().enumerate().map(layer).collect(),
        };
        plot.file(PLOT_STYLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(types: &[(&str, u64, f64)]) -> InstanceSeries {
        let entry = |&(name, cpus, price): &(&str, u64, f64)| InstanceTypeEntry {
            name: name.into(),
            cpu_millis: Some(1_000 * cpus),
            price_per_hour: Some(price),
            ..InstanceTypeEntry::default()
        };
        InstanceSeries { name: "s".into(), types: types.iter().map(entry).collect() }
    }

    /// Jobs of an hour at the same time, with these CPUs.
    fn jobs(cpus: &[u64]) -> Vec<Job> {
        cpus.iter().map(|cpus| testkit::job("j", 0, 3_600, testkit::cpus(1_000 * cpus))).collect()
    }

    #[track_caller]
    fn check(cpus: &[u64], types: &[(&str, u64, f64)], dollars: &[f64], expected: Option<&str>) {
        let settings = SimulationSettings::default();
        let progress = Progress { planned: &|_| (), advanced: &|_, _| () };
        let advice =
            advise(&jobs(cpus), &[series(types)], &settings, (0, 3_600), &progress).unwrap();
        let scale: Vec<f64> = advice[0].choices.iter().map(|choice| choice.scale_dollars).collect();
        let near = scale.iter().zip(dollars).all(|(got, wanted)| (got - wanted).abs() < 1e-6);
        assert!(near && scale.len() == dollars.len(), "{scale:?}");
        assert_eq!(advice[0].base.as_deref(), expected);
    }

    #[test]
    fn the_smallest_type_is_removed_while_the_scale_does_not_rise() {
        let types = [("s.4", 4, 4.0), ("s.2", 2, 2.0), ("s.8", 8, 8.0)];
        // Four pods of one CPU cost the same on two small nodes and on one of the next size.
        check(&[1, 1, 1, 1], &types, &[4.0, 4.0, 8.0], Some("s.4"));
        // One pod needs the smallest type.
        check(&[1], &types, &[2.0, 4.0, 8.0], Some("s.2"));
        // Two pods of three CPUs waste less of the large type.
        check(&[4, 4], &types, &[8.0, 8.0, 8.0], Some("s.8"));
        // The larger type lacks nothing, but the pod of four CPUs would not fit without it.
        check(&[8], &types[..2], &[0.0, 0.0], None);
    }
}
