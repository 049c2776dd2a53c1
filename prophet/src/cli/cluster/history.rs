//! `prophet history`: prints the recorded history as a table, JSON or CSV, or exports it as
//! Parquet.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Seek as _};
use std::path::PathBuf;

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use history::{BucketLine, HistoryReplay, LaunchEnd, Line, Place, ReplayReport, export};

use crate::cli::{output, runtime, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet history --data /var/lib/prophet
  prophet history --data s3://logs/prophet --policy batch.night --since 2026-07-01 --per tick
  prophet history --data /var/lib/prophet --output csv > history.csv
  prophet history export --data /var/lib/prophet --out history.parquet

TIME is a day, such as 2026-07-01, or a date-time, such as 2026-07-01T12:00:00Z. Without a zone it is UTC.
PLACE is a folder, file:///FOLDER or s3://BUCKET/PREFIX. The usual AWS environment variables set the
endpoint, the region and the credentials of S3.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    range: Option<Range>,
    /// The time that a row of the table covers [default: day]
    #[arg(long)]
    per: Option<Per>,
    /// How to print the result: a table, a JSON line per tick, or a CSV row per tick and bucket
    #[arg(long, default_value = "table")]
    output: ExportFormat,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write the history to one Parquet file
    Export(Export),
}

/// The part of the history that a command reads.
#[derive(clap::Args)]
struct Range {
    /// The location of the history
    #[arg(long, value_name = "PLACE")]
    data: String,
    /// Only this policy, as NAMESPACE.NAME [default: all policies]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Only ticks at or after this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<DateTime<Utc>>,
    /// Only ticks before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<DateTime<Utc>>,
}

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct Export {
    #[command(flatten)]
    range: Range,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Per {
    /// A row per day and bucket.
    Day,
    /// A row per tick and bucket.
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// Text for people.
    Table,
    /// The recorded lines, unchanged.
    Json,
    /// Comma-separated values for spreadsheets.
    Csv,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = runtime::of_this_thread()?;
    let Args { command, range, per, output } = args;
    if per == Some(Per::Day) && output != ExportFormat::Table {
        return Err(wrong_usage::conflict(
            "--per day is for tables: JSON has a line per tick, and CSV a row per tick and bucket",
        ));
    }
    let per = per.unwrap_or(Per::Day);
    match (command, range) {
        (Some(Command::Export(export)), _) => runtime.block_on(write_export(&export)),
        (None, Some(range)) => runtime.block_on(print_list(&range, per, output)),
        (None, None) => anyhow::bail!("--data is missing"),
    }
}

/// Opens the location; returns it with its policies, or with the one that `range` selects.
async fn open(range: &Range) -> anyhow::Result<(Place, Vec<String>)> {
    let place = Place::existing(&range.data)?;
    let mut policies = place.policies().await?;
    anyhow::ensure!(!policies.is_empty(), "{}: there is no history", range.data);
    if let Some(policy) = &range.policy {
        let have = policies.join(", ");
        policies.retain(|found| found == policy);
        anyhow::ensure!(
            !policies.is_empty(),
            "{}: there is no policy {policy}, only {have}",
            range.data
        );
    }
    Ok((place, policies))
}

async fn print_list(range: &Range, per: Per, output: ExportFormat) -> anyhow::Result<()> {
    let (place, policies) = open(range).await?;
    let mut printer = match (output, per) {
        (ExportFormat::Table, Per::Day) => Printer::Days(Summary::default()),
        (ExportFormat::Table, Per::Tick) => Printer::Ticks,
        (ExportFormat::Json, _) => Printer::Json,
        (ExportFormat::Csv, _) => Printer::Csv(Box::new(csv::Writer::from_writer(io::stdout()))),
    };
    printer.open()?;
    for policy in policies {
        let mut replay = HistoryReplay::open(&place, &policy, range.since).await?;
        while let Some(line) = replay.next().await? {
            if range.until.is_some_and(|until| line.time >= until) {
                break;
            }
            printer.line(&line)?;
        }
        warn(&policy, replay.report());
    }
    printer.close()
}

async fn write_export(Export { range, out }: &Export) -> anyhow::Result<()> {
    let (place, policies) = open(range).await?;
    // The row groups go to a temporary file, so that `out` appears only when the export is
    // complete.
    let file = tempfile::tempfile().context("failed to make a temporary file")?;
    let done = export(&place, &policies, range.since, range.until, file).await?;
    for (policy, report) in policies.iter().zip(&done.reports) {
        warn(policy, report);
    }
    let mut file = done.to;
    file.rewind()?;
    output::write_whole(out, |to| io::copy(&mut file, to).map(|_| ()))?;
    eprintln!("{} ticks of {} written to {}", done.lines, policies.join(", "), out.display());
    Ok(())
}

/// Reports the skipped lines on standard error.
fn warn(policy: &str, report: &ReplayReport) {
    let ReplayReport { lines: _, not_later, faults_total, faults } = report;
    for fault in faults {
        eprintln!("prophet: skipped: {fault}");
    }
    if *faults_total > faults.len() as u64 {
        eprintln!("prophet: {policy}: skipped {faults_total} faulty lines in total");
    }
    if *not_later > 0 {
        eprintln!(
            "prophet: {policy}: skipped {not_later} lines that are not later than the previous one"
        );
    }
}

/// Prints the lines of the history one by one.
enum Printer {
    Days(Summary),
    Ticks,
    Json,
    Csv(Box<csv::Writer<io::Stdout>>),
}

impl Printer {
    fn open(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Ticks => output::print(&format!(
                "{:<20} {:<20} {:<20} {:>7} {:>7} {:>9} {:>8} {:>12} {:>6}\n",
                "time",
                "policy",
                "bucket",
                "demand",
                "max",
                "announced",
                "headroom",
                "placeholders",
                "ready"
            )),
            Self::Csv(writer) => Ok(writer.write_record(columns())?),
            Self::Days(_) | Self::Json => Ok(()),
        }
    }

    fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        match self {
            Self::Days(summary) => {
                summary.add(line);
                Ok(())
            }
            Self::Ticks => output::print(&tick_rows(line)),
            Self::Json => output::print(&(line.text()? + "\n")),
            Self::Csv(writer) => write_csv(writer, line),
        }
    }

    fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Days(summary) => output::print(&summary.table()),
            Self::Csv(mut writer) => Ok(writer.flush()?),
            Self::Ticks | Self::Json => Ok(()),
        }
    }
}

fn tick_rows(line: &Line) -> String {
    let mut text = String::new();
    let time = line.time.format("%Y-%m-%dT%H:%M:%SZ");
    for (name, bucket) in &line.buckets {
        let BucketLine { demand, demand_max, announced, headroom, placeholders, ready, .. } =
            bucket;
        let _ = writeln!(
            text,
            "{time:<20} {:<20} {name:<20} {demand:>7} {demand_max:>7} {announced:>9} {headroom:>8} {placeholders:>12} {ready:>6}",
            line.policy
        );
    }
    text
}

/// Returns the columns of the CSV. They equal those of the Parquet file, except for fields that
/// this version does not define.
fn columns() -> impl Iterator<Item = &'static str> {
    let names = ["time", "policy", "bucket"].into_iter().chain(BucketLine::COUNTS);
    names.chain(["room", "arrivals", "launches"])
}

fn write_csv(writer: &mut csv::Writer<io::Stdout>, line: &Line) -> anyhow::Result<()> {
    let time = line.time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
    for (name, bucket) in &line.buckets {
        let BucketLine { room, arrivals, .. } = bucket;
        let launches: Vec<_> =
            line.launches.iter().filter(|launch| launch.bucket == *name).collect();
        let texts = [
            serde_json::to_string(room)?,
            serde_json::to_string(arrivals)?,
            serde_json::to_string(&launches)?,
        ];
        let names = [time.clone(), line.policy.clone(), name.clone()];
        writer.write_record(
            names.into_iter().chain(bucket.counts().map(|n| n.to_string())).chain(texts),
        )?;
    }
    Ok(())
}

/// Summaries by day, policy and bucket.
#[derive(Default)]
struct Summary {
    days: BTreeMap<(NaiveDate, String, String), Day>,
}

/// The summary of a bucket's ticks and launches on one day.
#[derive(Default)]
struct Day {
    ticks: u64,
    demand_sum: u128,
    demand_max: u64,
    placeholders_sum: u128,
    placeholders_max: u64,
    launches: u64,
    failed: u64,
    pods_hidden: u64,
    pods_waited: u64,
}

impl Summary {
    fn add(&mut self, line: &Line) {
        let key = |bucket: &str| (line.time.date_naive(), line.policy.clone(), bucket.to_owned());
        for (name, bucket) in &line.buckets {
            let day = self.days.entry(key(name)).or_default();
            day.ticks += 1;
            day.demand_sum += u128::from(bucket.demand);
            day.demand_max = day.demand_max.max(bucket.demand_max);
            day.placeholders_sum += u128::from(bucket.placeholders);
            day.placeholders_max = day.placeholders_max.max(bucket.placeholders);
            day.pods_hidden = day.pods_hidden.saturating_add(bucket.pods_hidden);
            day.pods_waited = day.pods_waited.saturating_add(bucket.pods_waited);
        }
        for launch in &line.launches {
            let day = self.days.entry(key(&launch.bucket)).or_default();
            day.launches += 1;
            day.failed += u64::from(matches!(launch.end, LaunchEnd::Failed(_)));
        }
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{:<10} {:<20} {:<20} {:>6} {:>11} {:>10} {:>17} {:>16} {:>8} {:>6} {:>13}\n",
            "day",
            "policy",
            "bucket",
            "ticks",
            "mean demand",
            "max demand",
            "mean placeholders",
            "max placeholders",
            "launches",
            "failed",
            "pods hidden %"
        );
        for ((day, policy, bucket), of) in &self.days {
            let mean = |sum: u128| sum as f64 / of.ticks.max(1) as f64;
            let (demand, placeholders) = (mean(of.demand_sum), mean(of.placeholders_sum));
            let Day { ticks, demand_max, placeholders_max, launches, failed, .. } = of;
            let started = of.pods_hidden.saturating_add(of.pods_waited);
            let share = if started > 0 {
                format!("{:.1}", 100.0 * of.pods_hidden as f64 / started as f64)
            } else {
                "-".into()
            };
            let _ = writeln!(
                text,
                "{day:<10} {policy:<20} {bucket:<20} {ticks:>6} {demand:>11.1} {demand_max:>10} {placeholders:>17.1} {placeholders_max:>16} {launches:>8} {failed:>6} {share:>13}"
            );
        }
        text
    }
}

/// Parses a day, meaning its midnight, or a date-time; in UTC where the text has no zone.
fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(time) = text.parse::<DateTime<Utc>>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<chrono::NaiveDateTime>() {
        return Ok(time.and_utc());
    }
    let day = text.parse::<NaiveDate>().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    day.map_err(|_| "expected a time such as 2026-07-01 or 2026-07-01T12:00:00Z".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_day_or_a_date_time() {
        let check = |text, expected: &str| {
            assert_eq!(parse_time(text).unwrap().to_rfc3339(), expected, "{text}");
        };
        check("2026-07-01", "2026-07-01T00:00:00+00:00");
        check("2026-07-01T12:00:00", "2026-07-01T12:00:00+00:00");
        check("2026-07-01T12:00:00+02:00", "2026-07-01T10:00:00+00:00");
        assert!(parse_time("yesterday").unwrap_err().starts_with("expected a time"));
    }
}
