//! `prophet catalog advise`: chooses instance types for a job log.

use std::fmt::Write as _;
use std::path::PathBuf;

use instances::{CatalogFile, InstanceType, family};
use serde_json::json;
use simulator::advice::{InstanceSeries, SeriesAdvice, advise};
use traces::Job;

use super::log::{LoadedLog, LogArgs, warm_up, warn_untrained};
use super::output::{OutputFormat, Overwrite};
use super::{input, output, progress, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet catalog advise                                     an example log, the series g4dn
  prophet catalog advise --trace jobs.csv.gz --from 14d --series m5,g4dn
  prophet catalog advise --data /var/lib/prophet --series m5  your own cluster, from the history that prophet run recorded
  prophet catalog advise --trace log.swf --series m5 --launch-latency 3m --output json --out advice/

A series is the instance types of one family, ascending. Its smallest type is removed one after the other. The base instance
is the smallest type that remains once a further removal would raise the scale: the price of the nodes that the jobs occupy
without launch latency. Dollars, waiting and hidden pods are those of prophet simulate, for the autoscaler alone and for Prophet.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The families of AWS instance types to choose from, each a series [default: g4dn, or m5 if no
    /// job has accelerators]
    #[arg(long, value_name = "A,B", value_delimiter = ',',
          value_parser = input::family)]
    series: Vec<String>,
    /// Also write advice.json, a picture of each series, and the chosen types as catalog.yaml here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(mut args: Args) -> anyhow::Result<()> {
    if args.log.catalog.is_some() || !args.log.instance_type.is_empty() {
        return Err(wrong_usage::conflict(
            "the instance types are those of --series: leave out --catalog and --instance-type",
        ));
    }
    args.log.other_types = args.log.data.is_some();
    let settings = args.log.settings(|_| ())?;
    let staged = output::stage(args.out.as_deref(), "advice.json", &args.overwrite)?;
    let mut series: Vec<InstanceSeries> = Vec::new();
    let loaded = args.log.replay(settings, |settings, trace| {
        series = series_for(&args.series, &trace.jobs);
        let types = series.iter().flat_map(|one| one.types.clone()).collect();
        settings.catalog = Some(CatalogFile::new(types));
        warm_up(settings, trace);
    })?;
    warn_untrained(&loaded);
    let LoadedLog { settings, trace, window, .. } = loaded;
    let advice =
        progress::of_runs(|progress| advise(&trace.jobs, &series, &settings, window, progress))?;
    let names: Vec<&str> = advice.iter().flat_map(SeriesAdvice::chosen).collect();
    let all = series.iter().flat_map(|one| &one.types);
    let chosen: Vec<_> =
        all.filter(|entry| names.contains(&entry.name.as_str())).cloned().collect();
    let document = report::versioned(json!({
        "trace": trace.source,
        "window": {"from": window.0, "until": window.1},
        "instance_types": names,
        "series": advice,
    }));
    if let Some(staged) = staged {
        for one in &advice {
            if let Some(picture) = one.picture() {
                staged
                    .write(&format!("{}.svg", one.series), |to| to.write_all(picture.as_bytes()))?;
            }
        }
        staged.write("advice.json", |to| Ok(serde_json::to_writer_pretty(to, &document)?))?;
        let prices = settings.catalog.map(|file| file.prices).unwrap_or_default();
        let file = CatalogFile { instance_types: chosen, prices };
        staged.write("catalog.yaml", |to| Ok(serde_json::to_writer_pretty(to, &file)?))?;
        eprintln!("wrote {}", staged.finish()?.join("advice.json").display());
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => output::print_document(args.output, &document),
        OutputFormat::Table => {
            let mut text = String::new();
            for one in &advice {
                text += &one.table();
                text.push('\n');
            }
            if names.is_empty() {
                text += "No series runs a job of the log.\n";
            } else {
                let _ = writeln!(text, "Chosen: --instance-type {}", names.join(","));
            }
            output::print(&text)
        }
    }
}

/// The series of these families, each once. Without a family, those that suit the jobs.
fn series_for(families: &[String], jobs: &[Job]) -> Vec<InstanceSeries> {
    let accelerated = || jobs.iter().any(|job| job.work.unit.accelerators > 0);
    let of_jobs = || if accelerated() { "g4dn" } else { "m5" };
    let mut names: Vec<&str> = families.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.push(of_jobs());
    }
    let mut series: Vec<InstanceSeries> = Vec::new();
    for name in names {
        if series.iter().all(|known| known.name != name) {
            let types = family(name).into_iter().map(InstanceType::entry).collect();
            series.push(InstanceSeries { name: name.into(), types });
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use embedder::Resources;

    use super::*;
    use traces::{Admits, Work};

    #[test]
    fn the_series_suit_the_jobs_unless_they_are_given() {
        let job = |accelerators| {
            let unit = Resources { accelerators, ..Resources::default() };
            let accelerator_kind = embedder::AcceleratorKind::default();
            let work = Work { units: 1, unit, accelerator_kind, split: None, admits: Admits::All };
            Job::new("a", "", 0, 1, work)
        };
        let check = |families: &[&str], jobs: &[Job], expected: &[&str]| {
            let families: Vec<String> = families.iter().map(|name| (*name).to_owned()).collect();
            let series = series_for(&families, jobs);
            let names: Vec<&str> = series.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, expected);
        };
        check(&[], &[job(0), job(0)], &["m5"]);
        check(&[], &[job(0), job(1)], &["g4dn"]);
        check(&["c5", "m5", "c5"], &[job(1)], &["c5", "m5"]);
    }
}
