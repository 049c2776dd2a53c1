//! `prophet model`: checks of a trained model, and its publication.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use base::input::is_a_folder;
use demand::forecast::{
    ModelFault, onnx,
    onnx::{Engine, Model, ModelSource, Spec},
};
use serde_json::json;

use super::model_place::ModelPlace;
use super::output::OutputFormat;
use super::{accept, model_place, output};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Check that a model file keeps the contract, and that an engine computes its golden output
    Check(CheckArgs),
    /// Compare a newly trained model with the model in use, and publish it unless it is worse
    Accept(Box<accept::Args>),
    /// Copy the model in use to a file, from a folder or S3
    Fetch(FetchArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 copied, 1 failed, 2 wrong usage, 3 there is no model in this place.

Example:
  prophet model fetch s3://models/prophet/own.onnx --out own.onnx"
)]
pub(super) struct FetchArgs {
    /// Where controllers load the model from: a file, or `s3://BUCKET/PREFIX/FILE`
    place: String,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 the model can be used, 1 the model has faults (listed), 2 the check could not run.

Examples:
  prophet model check quantile.onnx
  prophet model check quantile.onnx --onnx-runtime /usr/lib/libonnxruntime.so --output json"
)]
pub(super) struct CheckArgs {
    /// The ONNX file of the model [default: the shipped model]
    file: Option<PathBuf>,
    /// The ONNX Runtime library that runs the model [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

/// Exit code if the check could not run. The command line parser uses the same code for wrong
/// arguments.
const UNUSABLE: u8 = 2;

/// Exit code if there is no model to copy. It differs from a failure to reach the place.
const ABSENT: u8 = 3;

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(args) => Ok(run_check(args)),
        Command::Accept(args) => accept::run(args),
        Command::Fetch(args) => fetch(args),
    }
}

fn fetch(FetchArgs { place, out }: &FetchArgs) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let Some(found) = ModelPlace::parse(place)?.fetch(folder.path())? else {
        eprintln!("prophet: {place}: there is no model");
        return Ok(ExitCode::from(ABSENT));
    };
    let model = model_place::read(&found)?;
    output::write_whole(out, |to| to.write_all(&model))?;
    Ok(ExitCode::SUCCESS)
}

fn run_check(args: &CheckArgs) -> ExitCode {
    match check(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prophet: {error:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Prints the result of the check. Returns whether the model has no fault.
fn check(args: &CheckArgs) -> anyhow::Result<bool> {
    let engine = onnx::start(args.onnx_runtime.as_deref())?;
    if let Some(path) = &args.file {
        let named = || path.display().to_string();
        if std::fs::metadata(path).with_context(named)?.is_dir() {
            return Err(is_a_folder()).with_context(named);
        }
    }
    let source = args.file.clone().map_or(ModelSource::Pretrained, ModelSource::File);
    let loaded = source.load();
    let fine = loaded.is_ok();
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            output::print_document(args.output, &as_json(&loaded, &engine))?;
        }
        OutputFormat::Table => output::print(&as_text(&source, &loaded, &engine))?,
    }
    Ok(fine)
}

fn as_json(loaded: &Result<Model, Vec<ModelFault>>, engine: &Engine) -> serde_json::Value {
    let engine = engine.to_string();
    match loaded {
        Err(faults) => json!({"engine": engine, "usable": false, "faults": faults}),
        Ok(model) => {
            let Spec {
                window,
                horizon,
                tick_seconds,
                levels,
                buckets,
                state,
                covariates,
                lead_seconds,
                training,
                revision,
                ..
            } = &**model.spec();
            json!({
                "engine": engine, "usable": true, "faults": [], "window": window, "horizon": horizon,
                "tick_seconds": tick_seconds, "levels": levels, "buckets": buckets, "state": state,
                "covariates": covariates,
                "lead_seconds": lead_seconds, "training": training, "revision": revision,
            })
        }
    }
}

fn as_text(
    source: &ModelSource,
    loaded: &Result<Model, Vec<ModelFault>>,
    engine: &Engine,
) -> String {
    let mut text = String::new();
    match loaded {
        Err(faults) => {
            let _ = writeln!(text, "{source} has faults:");
            for fault in faults {
                let _ = writeln!(text, "  {fault}");
            }
        }
        Ok(model) => {
            let Spec { window, horizon, tick_seconds, buckets, lead_seconds, .. } = &**model.spec();
            let _ = writeln!(text, "usable, run by {engine}");
            let _ = writeln!(
                text,
                "  window {window} ticks of {tick_seconds} s, horizon {horizon} ticks"
            );
            let _ = match buckets {
                None => writeln!(text, "  for any buckets"),
                Some(names) => writeln!(text, "  for the buckets {}", names.join(", ")),
            };
            let _ = match lead_seconds {
                None => writeln!(text, "  forecasts demand"),
                Some([least, most]) => writeln!(
                    text,
                    "  forecasts demand, and the new nodes needed within lead times of {least} to {most} s \
                     (launch, tick and scan together)"
                ),
            };
        }
    }
    text
}
