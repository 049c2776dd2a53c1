//! `prophet health`: whether a controller is ready. The image has no other program that could send
//! a request, so `helm test` runs this command.

use std::time::Duration;

use base::clock::Stopwatch;
use base::span::Span;

use super::http_get::{Access, Address, GetLimits, HttpClient};
use crate::cli::output;

const EXAMPLES: &str = "\
Examples:
  prophet health http://127.0.0.1:8080/readyz
  prophet health https://prophet.prophet:8080/readyz --wait 1m

The command fails unless the response has the status 200. A controller serves /readyz, which fails until
all objects of the cluster were read, and /healthz, which fails after too long a time without progress.
Over HTTPS, the certificate is not verified, as by the probes of the kubelet.";

/// The limits of a response. Those of both paths have less than 1 KiB.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(5), bytes: 64 << 10 };
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// The address, http://HOST:PORT/PATH or https://HOST:PORT/PATH
    address: Address,
    /// How long to repeat the request until it succeeds, such as 1m
    #[arg(long, value_name = "TIME", default_value = "0s")]
    wait: Span,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Args { address, wait } = args;
    let wait = Duration::from_secs(wait.as_seconds().unsigned_abs());
    let client = HttpClient::new(Access::Probe, LIMITS)?;
    let started = Stopwatch::now();
    loop {
        match client.get(address) {
            Ok(text) => return output::print(&format!("{}\n", text.trim_end())),
            Err(_) if started.elapsed() + PAUSE < wait => std::thread::sleep(PAUSE),
            Err(error) => return Err(error.context(address.to_string())),
        }
    }
}
