//! `prophet embed`: counts the instances that a list of pods needs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base::input::{header_faults, other_separator};
use embedder::{
    AcceleratorKind, Catalog, Order, PodRequest, Resources, Shape, Unplaced, pack, share,
};
use instances::{CatalogFile, why_unfit};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::output::OutputFormat;
use super::{input, output, progress};

const EXAMPLES: &str = "\
Examples:
  prophet embed --shapes pods.csv
  prophet embed --shapes pods.csv --catalog types.yaml --order decreasing --output json

pods.csv has a header and these columns:
  name, count, accelerators, cpu_millis, memory_bytes, ephemeral_bytes and, optionally, accelerator_kind

The exit code is 1 if any pods fit on no instance type; the instances of the others are printed all the same.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The pods, as CSV; `-` is standard input
    #[arg(long, value_name = "FILE", value_parser = input::file())]
    shapes: PathBuf,
    /// The instance types on offer, as YAML [default: the M5 and G4dn series of AWS]
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// How instances are counted
    #[arg(long, default_value = "bins")]
    mode: Mode,
    /// The order in which pods are packed
    #[arg(long, default_value = "increasing")]
    order: OrderArg,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

/// How instances are counted.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// Pack pods onto nodes, first fit; a pod is never split.
    Bins,
    /// The paper's Algorithm 2: dominant share of the summed requests per bucket, as if pods could
    /// be split.
    Share,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrderArg {
    /// Smallest pod first.
    Increasing,
    /// Largest pod first, as in cluster-autoscaler.
    Decreasing,
}

/// The instance types of the paper's two series: M5, general purpose, and G4dn, the cheapest with
/// GPUs.
const DEFAULT_TYPES: [&str; 14] = [
    "m5.large",
    "m5.xlarge",
    "m5.2xlarge",
    "m5.4xlarge",
    "m5.8xlarge",
    "m5.12xlarge",
    "m5.16xlarge",
    "m5.24xlarge",
    "g4dn.xlarge",
    "g4dn.2xlarge",
    "g4dn.4xlarge",
    "g4dn.8xlarge",
    "g4dn.12xlarge",
    "g4dn.metal",
];

#[derive(Serialize)]
struct Left<'a> {
    name: &'a str,
    count: u64,
    reason: &'static str,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let catalog = catalog(args.catalog.as_deref())?;
    let rows = rows(&args.shapes)?;
    let requests: Vec<PodRequest> = rows.iter().map(|(_, request)| request.clone()).collect();
    let count = || match args.mode {
        Mode::Bins => {
            let order = match args.order {
                OrderArg::Increasing => Order::Increasing,
                OrderArg::Decreasing => Order::Decreasing,
            };
            let packing = pack(&requests, &[], &catalog, order);
            (packing.opened, packing.unplaced)
        }
        Mode::Share => {
            let share = share(&requests, &catalog);
            (share.instances, share.unplaced)
        }
    };
    let (instances, unplaced) = progress::during("packing pods", count);
    let needed = catalog.buckets().iter().zip(&instances).filter(|(_, n)| **n > 0);
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            let instances: Map<String, Value> =
                needed.map(|(b, n)| (b.name.clone(), json!(n))).collect();
            let left = unplaced.iter().map(|&Unplaced { request, count, reason }| Left {
                name: &rows[request].0,
                count,
                reason: reason.label(),
            });
            let left: Vec<Left> = left.collect();
            output::print_document(
                args.output,
                &json!({ "instances": instances, "unplaced": left }),
            )?;
        }
        OutputFormat::Table => {
            let mut text =
                format!("{:<20} {:>9} {:>12}\n", "instance type", "instances", "dollars/hour");
            for (bucket, n) in needed {
                let _ = writeln!(
                    text,
                    "{:<20} {n:>9} {:>12.3}",
                    bucket.name,
                    bucket.hourly.times(*n).dollars()
                );
            }
            for Unplaced { request, count, reason } in &unplaced {
                let (name, PodRequest { shape, .. }) = &rows[*request];
                let why = why_unfit(*reason, shape.requests, &shape.accelerator_kind, &catalog);
                let _ = writeln!(
                    text,
                    "{count} of {name} fit nowhere: {why}; give other types with --catalog"
                );
            }
            output::print(&text)?;
        }
    }
    let names = unplaced
        .iter()
        .map(|Unplaced { request, count, .. }| format!("{count} of {}", rows[*request].0));
    let names: Vec<String> = names.collect();
    anyhow::ensure!(names.is_empty(), "no instance type fits {}", names.join(", "));
    Ok(())
}

fn catalog(path: Option<&Path>) -> anyhow::Result<Catalog> {
    let Some(path) = path else {
        return Ok(CatalogFile::of_types(DEFAULT_TYPES).catalog()?);
    };
    Ok(input::catalog(path)?.catalog()?)
}

/// Reads the pods' names and requests.
///
/// # Errors
/// The file cannot be read or has no pods, or a line is malformed; the message names the file, the
/// line and the column.
fn rows(path: &Path) -> anyhow::Result<Vec<(String, PodRequest)>> {
    let text = input::text(path)?;
    let at = |line: u64| format!("{}:{line}", path.display());
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().with_context(|| path.display().to_string())?;
    anyhow::ensure!(!header.is_empty(), "{}: the file is empty", path.display());
    let header: csv::StringRecord = header.iter().map(str::to_lowercase).collect();
    if let Some(name) = text.lines().next().and_then(|line| other_separator(line, &COLUMNS)) {
        anyhow::bail!("{}: the columns are separated by {name}: separate them with commas", at(1));
    }
    let names: Vec<&str> = header.iter().collect();
    if let Some(faults) = header_faults(&names, &COLUMNS[..6], &COLUMNS) {
        anyhow::bail!("{}: {faults}; the columns are {}", at(1), COLUMNS.join(", "));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.as_ref().map_or(0, csv::Position::line);
                anyhow::anyhow!("{}: expected {expected_len} columns, got {len}", at(line))
            }
            _ => anyhow::Error::from(error).context(path.display().to_string()),
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = row(&header, &record);
        rows.push(row.map_err(|problem| anyhow::anyhow!("{}: {problem}", at(line)))?);
    }
    anyhow::ensure!(!rows.is_empty(), "{}: the file has no pods", path.display());
    Ok(rows)
}

/// The columns of the file of `--shapes`. The last one is optional.
const COLUMNS: [&str; 7] = [
    "name",
    "count",
    "accelerators",
    "cpu_millis",
    "memory_bytes",
    "ephemeral_bytes",
    "accelerator_kind",
];

/// The largest number of one column: 2^60. No machine has an exbibyte of memory, so a greater value
/// is an error, and sums of a few do not overflow.
const AMOUNT_MAX: u64 = 1 << 60;

fn row(
    header: &csv::StringRecord,
    record: &csv::StringRecord,
) -> Result<(String, PodRequest), String> {
    let field = |column: &str| {
        let at = header.iter().position(|name| name == column);
        at.and_then(|at| record.get(at)).unwrap_or_default()
    };
    let number = |column: &str| {
        let number = field(column).parse().ok().filter(|number| *number <= AMOUNT_MAX);
        number.ok_or_else(|| {
            format!(
                "column {column}: expected a whole number from 0 to 2^60, got {:?}",
                field(column)
            )
        })
    };
    let requests = Resources {
        devices: embedder::Devices::NONE,
        accelerators: number("accelerators")?,
        cpu_millis: number("cpu_millis")?,
        memory_bytes: number("memory_bytes")?,
        ephemeral_bytes: number("ephemeral_bytes")?,
        pods: 1,
    };
    let kind = Some(field("accelerator_kind")).filter(|kind| !kind.is_empty());
    let kind = kind.map_or_else(AcceleratorKind::default, AcceleratorKind::new);
    let count = number("count")?;
    Ok((field("name").into(), PodRequest { shape: Shape::new(requests, kind), count }))
}
