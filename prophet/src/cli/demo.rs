//! `prophet demo`: a simulated cluster in fast time, with and without Prophet, on the dashboard.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context as _;
use dashboard::http::{Response, plain, serve};
use dashboard::{Dashboard, respond};
use simulator::{SimulationInput, compare, write_table};

use super::log::{LoadedLog, LogArgs, warm_up};
use super::{input, interrupt, output, progress};
use crate::demo::{self, CAPTIONS, POLICIES, Pace};

const EXAMPLES: &str = "\
Examples:
  prophet demo                                 an example log; open the printed address in a browser
  prophet demo --speed 600                     slower: ten minutes in a second
  prophet demo --trace jobs.csv.gz --from 14d  your own log; its first 14 days warm up the forecasts

The demo first prints the comparison over the whole evaluated time, which takes some seconds. Then it runs the
same jobs in fast time. At the end of the log, the page stays. Ctrl-C ends the demo with exit code 0, or with
130 before the comparison is printed.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The simulated seconds in a second; by default, a day takes a minute
    #[arg(long, value_name = "X", default_value = "1440", value_parser = speed)]
    speed: f64,
    /// The address on which the dashboard is served [default: 127.0.0.1:8090, or any free port]
    #[arg(long, value_name = "ADDRESS", value_parser = input::listen_address)]
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
    let dashboard = Arc::new(Dashboard::new(CAPTIONS));
    dashboard.headline("The comparison over the whole evaluated time takes some seconds.".into());
    let address = listener.local_addr()?;
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
    let comparison = progress::of_runs(|progress| {
        compare(&workload, &catalog, &settings, window, false, progress)
    });
    output::print(&write_table(&comparison, &settings, &trace, &catalog, false))?;
    interrupt::done_on_interrupt();
    eprintln!("\nthe same jobs in fast time, on the dashboard: http://{address}/ (Ctrl-C ends it)");
    let pace = Pace::new(args.speed, window.0, settings.tick.as_seconds(), POLICIES.len());
    let answer = comparison.answer();
    progress::of_warm_up(&POLICIES, |warmed| {
        demo::run(input, &dashboard, &pace, &answer, warmed);
    });
    eprintln!("the log has ended; the dashboard stays until Ctrl-C");
    loop {
        std::thread::park();
    }
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
