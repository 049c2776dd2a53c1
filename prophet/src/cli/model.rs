//! `prophet model`: what is wrong with a trained network.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::output::{self, Format};
use crate::forecast::onnx::{self, Engine, ModelFault, Network, Source, Spec};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Check that a file keeps the contract of networks, and that an engine makes of it what it ought to
    Check(CheckArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 it can be used, 1 it has faults, which are listed, 2 it could not be checked.

Examples:
  prophet model check quantile.onnx
  prophet model check quantile.onnx --onnx-runtime /usr/lib/libonnxruntime.so --output json"
)]
pub(super) struct CheckArgs {
    /// The ONNX file; the network that is shipped when absent
    file: Option<PathBuf>,
    /// The library of ONNX Runtime to run it with; the embedded engine when absent
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// How to print the result
    #[arg(long, default_value = "table")]
    output: Format,
}

/// Usage, as far as the command line cannot tell it.
const UNUSABLE: u8 = 2;

pub(super) fn run(command: &Command) -> ExitCode {
    let Command::Check(args) = command;
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

/// Whether it has no fault.
fn check(args: &CheckArgs) -> anyhow::Result<bool> {
    let engine = onnx::start(args.onnx_runtime.as_deref())?;
    if let Some(path) = &args.file {
        anyhow::ensure!(path.is_file(), "{}: no such file", path.display());
    }
    let loaded = args.file.clone().map_or(Source::Pretrained, Source::File).load();
    let fine = loaded.is_ok();
    match args.output {
        Format::Json => output::print_json(&as_json(&loaded, &engine))?,
        Format::Table => output::print(&as_text(&loaded, &engine))?,
    }
    Ok(fine)
}

fn as_json(loaded: &Result<Network, Vec<ModelFault>>, engine: &Engine) -> serde_json::Value {
    let engine = engine.to_string();
    match loaded {
        Err(faults) => json!({"engine": engine, "usable": false, "faults": faults}),
        Ok(network) => {
            let Spec {
                window,
                horizon,
                tick_seconds,
                levels,
                buckets,
                state,
                lead_seconds,
                training,
                revision,
                ..
            } = &**network.spec();
            json!({
                "engine": engine, "usable": true, "faults": [], "window": window, "horizon": horizon,
                "tick_seconds": tick_seconds, "levels": levels, "buckets": buckets, "state": state,
                "lead_seconds": lead_seconds, "training": training, "revision": revision,
            })
        }
    }
}

fn as_text(loaded: &Result<Network, Vec<ModelFault>>, engine: &Engine) -> String {
    let mut text = String::new();
    match loaded {
        Err(faults) => {
            for fault in faults {
                let _ = writeln!(text, "{fault}");
            }
        }
        Ok(network) => {
            let Spec { window, horizon, tick_seconds, buckets, lead_seconds, .. } = &**network.spec();
            let _ = writeln!(text, "usable, run by {engine}");
            let _ = writeln!(text, "  sees {window} ticks of {tick_seconds} s, looks {horizon} ahead");
            let _ = match buckets {
                None => writeln!(text, "  for any buckets"),
                Some(names) => writeln!(text, "  for the buckets {}", names.join(", ")),
            };
            let _ = match lead_seconds {
                None => writeln!(text, "  says what demand will be"),
                Some([least, most]) => writeln!(
                    text,
                    "  says what launches of {least} to {most} s, tick and scan among it, will need"
                ),
            };
        }
    }
    text
}
