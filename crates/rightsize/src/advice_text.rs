//! The advice as text.

use std::fmt::Write as _;

use usage::{AgeFigures, LimitFigures};

use super::advice::{ContainerAdvice, RightSizing};

/// The width of the names of containers. Longer ones lose their start, because the ends differ.
const NAME: usize = 26;

const GIB: f64 = 1_073_741_824.0;

/// A figure, or `-` if it cannot be computed.
fn figure(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".into() }
}

/// An amount in thousandths or in GiB, or `-`.
fn amount(value: Option<u64>, unit: f64) -> String {
    value.map_or("-".into(), |value| format!("{:.2}", value as f64 / unit))
}

fn change(before: f64, after: f64) -> String {
    let percent = |value: f64| figure(100.0 * value, 0);
    format!("{} > {}", percent(before), percent(after))
}

impl RightSizing {
    /// The advice as tables: at most `most` containers, the figures of limits, and the cluster.
    pub fn table(&self, most: usize) -> String {
        let mut text = self.containers_table(most);
        text += &self.figures_table();
        text += &self.ages_table();
        text += &self.cluster_table();
        text += &self.answer();
        text
    }

    fn containers_table(&self, most: usize) -> String {
        let mut text = format!(
            "{:NAME$} {:>5}  {:^15}  {:^15}  {:^17}  {:^11}\n",
            "", "", "cores", "GiB", "slack in %", "OOM days"
        );
        let _ = writeln!(
            text,
            "{:NAME$} {:>5} {:>7} {:>8} {:>8} {:>7} {:>9} {:>9} {:>12}",
            "container", "jobs", "request", "right", "request", "right", "CPU", "memory", "of all"
        );
        for container in self.containers.iter().take(most) {
            text += &row(container);
        }
        let left = self.containers.len().saturating_sub(most);
        if left > 0 {
            let _ = writeln!(text, "and {left} more: give --top or --output json");
        }
        text
    }

    fn figures_table(&self) -> String {
        let Self { requested, recommended, usage_days, .. } = self;
        let mut text = format!(
            "\n{:44} {:>12} {:>12}\n",
            format!("limits over {usage_days} days of usage"),
            "requested",
            "recommended"
        );
        let mut line = |name: &str, digits: usize, of: &dyn Fn(&LimitFigures) -> f64| {
            let [one, other] = [requested, recommended].map(|figures| figure(of(figures), digits));
            let _ = writeln!(text, "  {name:42} {one:>12} {other:>12}");
        };
        line("footprint, cores", 1, &|figures| figures.footprint_cores);
        line("footprint, GiB", 1, &|figures| figures.footprint_memory_bytes / GIB);
        line("slack of CPU, %", 1, &|figures| 100.0 * figures.slack_cpu);
        line("slack of memory, %", 1, &|figures| 100.0 * figures.slack_memory);
        line("time of pods above their CPU, %", 1, &|figures| {
            100.0 * figures.cpu_above_limit_share
        });
        line("job-days with an OOM, %", 1, &|figures| 100.0 * figures.oom_day_share);
        line("OOMs per pod and day", 3, &|figures| figures.ooms_per_pod_day);
        line("changes of limits per job-day", 1, &|figures| figures.changes_per_day);
        text
    }

    fn ages_table(&self) -> String {
        let ages = &self.recommended_by_age;
        let mut text = format!("\n{:34}", "recommendations by age of workload");
        for AgeFigures { age, .. } in ages {
            let _ = write!(text, " {age:>10}");
        }
        text.push('\n');
        let mut line = |name: &str, digits: usize, of: fn(&AgeFigures) -> f64| {
            let _ = write!(text, "  {name:32}");
            for figures in ages {
                let _ = write!(text, " {:>10}", figure(of(figures), digits));
            }
            text.push('\n');
        };
        line("slack of CPU, %", 1, |figures| 100.0 * figures.slack_cpu);
        line("slack of memory, %", 1, |figures| 100.0 * figures.slack_memory);
        line("OOMs per pod and day", 3, |figures| figures.ooms_per_pod_day);
        text
    }

    fn cluster_table(&self) -> String {
        let (before, after) = (&self.cluster_requested, &self.cluster_right_sized);
        let mut text = format!(
            "\n{:44} {:>12} {:>12}\n",
            format!("{} of {} jobs right-sized", self.jobs_right_sized, self.jobs),
            "requested",
            "right-sized"
        );
        let mut line = |name: &str, digits: usize, one: f64, other: f64| {
            let [one, other] = [one, other].map(|value| figure(value, digits));
            let _ = writeln!(text, "  {name:42} {one:>12} {other:>12}");
        };
        line("occupied nodes, mean", 2, before.nodes_mean, after.nodes_mean);
        for (one, other) in before.nodes.iter().zip(&after.nodes) {
            if one.peak.max(other.peak) > 0 {
                line(&format!("  {}", one.instance_type), 2, one.mean, other.mean);
            }
        }
        let (one, other) = (&before.utilisation, &after.utilisation);
        let mut percent = |name: &str, one: f64, other: f64| {
            line(name, 1, 100.0 * one, 100.0 * other);
        };
        percent("  requested of their CPU, %", one.cpu_requested, other.cpu_requested);
        percent("  used of their CPU, %", one.cpu_used, other.cpu_used);
        percent("  requested of their memory, %", one.memory_requested, other.memory_requested);
        percent("  used of their memory, %", one.memory_used, other.memory_used);
        line("price of occupied nodes, $", 2, before.scale_dollars, after.scale_dollars);
        line(
            "jobs that fit no instance type",
            0,
            before.jobs_left_out as f64,
            after.jobs_left_out as f64,
        );
        for (one, other) in before.policies.iter().zip(&after.policies) {
            let name = &one.policy;
            let (one, other) = (&one.figures, &other.figures);
            line(&format!("{name}: price of nodes, $"), 2, one.dollars, other.dollars);
            line("  pending pod-hours", 1, one.pending_pod_hours, other.pending_pod_hours);
            let [hidden, hidden_after] =
                [one, other].map(|figures| 100.0 * figures.pods_hidden_share);
            line("  pods hidden, %", 1, hidden, hidden_after);
        }
        text
    }

    fn answer(&self) -> String {
        if self.jobs_that_fit_once > 0 {
            return format!(
                "\n{} of the jobs fit an instance type only as requested or only right-sized, so the dollars cannot be compared: give larger types with --instance-type or --catalog.\n",
                self.jobs_that_fit_once
            );
        }
        let (before, after) =
            (self.cluster_requested.dollars(), self.cluster_right_sized.dollars());
        let saved = before - after;
        let percent = 100.0 * saved.abs() / before;
        let verb = if saved < 0.0 { "cost" } else { "save" };
        let more = if saved < 0.0 { " more" } else { "" };
        format!(
            "\nRight-sized requests {verb} ${:.2}{more} of ${before:.2}, {percent:.1} %. This is advice: no job was changed.\n",
            saved.abs()
        )
    }
}

fn row(container: &ContainerAdvice) -> String {
    let ContainerAdvice { owner, container: name, cpu_millis, memory_bytes, .. } = container;
    let name = if name.is_empty() { owner.to_string() } else { format!("{owner}/{name}") };
    let length = name.chars().count();
    let name = if length > NAME {
        let end: String = name.chars().skip(length + 1 - NAME).collect();
        format!("…{end}")
    } else {
        name
    };
    let (before, after) = (&container.requested, &container.recommended);
    let days = format!(
        "{} > {} / {}",
        container.oom_days_requested, container.oom_days_recommended, container.days
    );
    format!(
        "{name:NAME$} {:>5} {:>7} {:>8} {:>8} {:>7} {:>9} {:>9} {:>12}\n",
        container.jobs,
        amount(cpu_millis.request, 1_000.0),
        amount(cpu_millis.recommended, 1_000.0),
        amount(memory_bytes.request, GIB),
        amount(memory_bytes.recommended, GIB),
        change(before.slack_cpu, after.slack_cpu),
        change(before.slack_memory, after.slack_memory),
        days
    )
}
