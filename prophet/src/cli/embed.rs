//! `prophet embed`: counts the instances that a list of pods needs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use embedder::{
    AcceleratorKind, Catalog, Order, PodRequest, Resources, Shape, Unplaced, pack, share,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::output::{OutputFormat, input_file};
use super::{output, progress};
use crate::catalog::{CatalogFile, instance_type};

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
    #[arg(long, value_name = "FILE", value_parser = input_file())]
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
    #[arg(long, default_value = "table")]
    output: OutputFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
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

/// A row of the file of `--shapes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    count: u64,
    accelerators: u64,
    cpu_millis: u64,
    memory_bytes: u64,
    ephemeral_bytes: u64,
    #[serde(default)]
    accelerator_kind: Option<String>,
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
    let left: Vec<Left> = unplaced
        .iter()
        .map(|&Unplaced { request, count, reason }| Left {
            name: &rows[request].0,
            count,
            reason: reason.label(),
        })
        .collect();
    let needed = catalog.buckets().iter().zip(&instances).filter(|(_, n)| **n > 0);
    match args.output {
        OutputFormat::Json => {
            let instances: Map<String, Value> =
                needed.map(|(b, n)| (b.name.clone(), json!(n))).collect();
            output::print_json(&json!({ "instances": instances, "unplaced": left }))?;
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
            for Left { name, count, reason } in &left {
                let _ = writeln!(text, "{count} of {name} fit nowhere: {reason}");
            }
            output::print(&text)?;
        }
    }
    let unplaced =
        left.iter().map(|Left { name, count, reason }| format!("{count} of {name} ({reason})"));
    let unplaced: Vec<String> = unplaced.collect();
    anyhow::ensure!(unplaced.is_empty(), "no instance type fits {}", unplaced.join(", "));
    Ok(())
}

fn catalog(path: Option<&Path>) -> anyhow::Result<Catalog> {
    let Some(path) = path else {
        let types = DEFAULT_TYPES.iter().filter_map(|name| instance_type(name)).collect();
        return Ok(CatalogFile { instance_types: types }.catalog()?);
    };
    let file = CatalogFile::parse(&output::read_text(path)?);
    file.and_then(|file| file.catalog()).with_context(|| path.display().to_string())
}

/// Reads the pods' names and requests.
///
/// # Errors
/// The file cannot be read or has no pods, or a line is malformed; the message names the file, the
/// line and the column.
fn rows(path: &Path) -> anyhow::Result<Vec<(String, PodRequest)>> {
    let read = || format!("failed to read {}", path.display());
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).with_context(read)?;
    let header = reader.headers().with_context(read)?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.with_context(|| path.display().to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let row: Row = record
            .deserialize(Some(&header))
            .map_err(|error| fault(path, line, &header, &record, &error))?;
        let Row {
            name,
            count,
            accelerators,
            cpu_millis,
            memory_bytes,
            ephemeral_bytes,
            accelerator_kind,
        } = row;
        let kind = accelerator_kind.filter(|kind| !kind.is_empty());
        let kind = kind.as_deref().map_or_else(AcceleratorKind::default, AcceleratorKind::new);
        let requests =
            Resources { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods: 1 };
        rows.push((name, PodRequest { shape: Shape::new(requests, kind), count }));
    }
    anyhow::ensure!(!rows.is_empty(), "{}: the file has no pods", path.display());
    Ok(rows)
}

fn fault(
    path: &Path,
    line: u64,
    header: &csv::StringRecord,
    record: &csv::StringRecord,
    error: &csv::Error,
) -> anyhow::Error {
    let at = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            err.field().and_then(|at| usize::try_from(at).ok())
        }
        _ => None,
    };
    let place = at.and_then(|at| Some((header.get(at)?, record.get(at)?)));
    match place {
        Some((column, value)) => {
            anyhow::anyhow!(
                "{}:{line}: column {column}: expected a whole number, got {value:?}",
                path.display()
            )
        }
        None => anyhow::anyhow!(
            "{}:{line}: the columns must be name, count, accelerators, cpu_millis, memory_bytes, ephemeral_bytes and, optionally, accelerator_kind: {error}",
            path.display()
        ),
    }
}
