//! `prophet demo`: a simulated cluster in fast time, with and without Prophet, on the dashboard.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context as _;
use dashboard::http::{Response, plain, serve};
use dashboard::{Dashboard, respond};
use simulator::{Comparison, SimulationInput, SimulationSettings, write_table};
use traces::Trace;

use super::log::{LoadedLog, LogArgs};
use super::{interrupt, output, progress};
use crate::demo::{self, CAPTIONS, POLICIES, Pace};

const EXAMPLES: &str = "\
Examples:
  prophet demo                                 an example log; open the printed address in a browser
  prophet demo --speed 600                     slower: ten minutes in a second
  prophet demo --trace jobs.csv.gz --from 14d  your own log; its first 14 days warm up the forecasts

Without --from, the first half of a log warms up the forecasts, at most 14 days.
Ctrl-C, or the end of the log, ends the demo and prints the comparison, with exit code 0.
While the forecasts still learn, Ctrl-C exits with 130 and prints no comparison. SIGTERM exits with
143 at any time.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The simulated seconds in a second; by default, a day takes a minute
    #[arg(long, value_name = "X", default_value = "1440", value_parser = speed)]
    speed: f64,
    /// The address on which the dashboard is served [default: 127.0.0.1:8090, or any free port]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

fn speed(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    let in_range = parsed.filter(|speed| (1.0..=1e9).contains(speed));
    in_range.ok_or_else(|| "expected a number from 1 to 1000000000".into())
}

/// The default address. A fixed port, so that an open page goes on after a restart.
const LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8090);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let listener = listen(args.listen)?;
    let settings = args.log.settings(|settings| settings.policies = POLICIES.to_vec())?;
    let LoadedLog { settings, trace, catalog, workload, window } =
        args.log.replay(settings, warm_up)?;
    let pace =
        Arc::new(Pace::new(args.speed, window.0, settings.tick.as_seconds(), POLICIES.len()));
    let stopped = Arc::clone(&pace);
    interrupt::on_interrupt(move || stopped.stop())?;
    let dashboard = Arc::new(Dashboard::new(CAPTIONS));
    eprintln!("the dashboard: http://{}/", listener.local_addr()?);
    let shown = Arc::clone(&dashboard);
    serve(listener, plain(), move |request| {
        respond(&shown, request).unwrap_or_else(Response::not_found)
    })?;
    let input = SimulationInput {
        workload: &workload,
        catalog: &catalog,
        settings: &settings,
        window,
        replay: 0,
        keep_ticks: false,
    };
    eprintln!(
        "learning from the jobs before the comparison; after that, Ctrl-C ends the demo and prints it"
    );
    let logs =
        progress::of_warm_up(&POLICIES, |warmed| demo::run(input, &dashboard, &pace, warmed));
    let comparison = Comparison::of_logs(&logs, &settings, &catalog);
    output::print(&write_table(&comparison, &settings, &trace, &catalog, false))
}

fn listen(address: Option<SocketAddr>) -> anyhow::Result<TcpListener> {
    let bound = match address {
        Some(address) => TcpListener::bind(address),
        None => TcpListener::bind(LISTEN).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => TcpListener::bind((LISTEN.0, 0)),
            _ => Err(error),
        }),
    };
    let shown = address.unwrap_or(LISTEN.into());
    bound.with_context(|| format!("failed to listen on {shown}: give another address by --listen"))
}

/// The longest warm-up of a log for which no start is given, in seconds: 14 days.
const WARM_UP_MAX: i64 = 14 * 86_400;

/// Lets the first half of a log warm up the forecasts, at most 14 days, unless a start is given.
fn warm_up(settings: &mut SimulationSettings, trace: &Trace) {
    let (Some(first), Some(last)) = (trace.jobs.first(), trace.jobs.last()) else { return };
    let half = ((last.submit - first.submit) / 2).clamp(0, WARM_UP_MAX);
    if settings.from.is_none() {
        settings.from = format!("{half}s").parse().ok();
    }
}
