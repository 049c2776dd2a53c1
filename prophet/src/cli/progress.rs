//! The progress of a long command: a line on standard error, drawn only on a terminal.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::simulate::Progress;

/// The line that is drawn now. Ctrl-C removes it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The time between two drawings, so that the clock moves while nothing else does.
const REDRAW: Duration = Duration::from_millis(200);

/// The length of the bar: a run is this long.
const PER_RUN: f64 = 1_000.0;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the line.
pub(super) fn clear() {
    if let Some(bar) = locked(&SHOWN).take() {
        bar.finish_and_clear();
    }
}

fn show(template: &str, message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(0)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(message.to_owned());
    bar.enable_steady_tick(REDRAW);
    clear();
    *locked(&SHOWN) = Some(bar.clone());
    bar
}

/// Does some work while a line shows its name and the elapsed time.
pub(super) fn during<T>(name: &str, work: impl FnOnce() -> T) -> T {
    show("{spinner} {wide_msg} {elapsed_precise}", name);
    let result = work();
    clear();
    result
}

/// Does work that consists of runs, while a bar shows how much of it is done, the runs in progress,
/// and the elapsed and the remaining time.
pub(super) fn of_runs<T>(work: impl FnOnce(&Progress<'_>) -> T) -> T {
    let template = "{bar:12} {percent:>3} %  {elapsed_precise}, {eta} left  {wide_msg}";
    let bar = show(template, "preparing");
    let runs = Mutex::new(Runs::default());
    let draw = |change: &dyn Fn(&mut Runs)| {
        let mut runs = locked(&runs);
        change(&mut runs);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares >= 0")]
        let whole = |share: f64| (PER_RUN * share) as u64;
        bar.set_length(whole(runs.planned as f64));
        bar.set_position(whole(runs.completed()));
        bar.set_message(runs.message());
    };
    let result = work(&Progress {
        planned: &|count| draw(&|runs| runs.planned += count),
        advanced: &|name, share| draw(&|runs| runs.advance(name, share)),
    });
    clear();
    result
}

/// The state of the runs of a command.
#[derive(Default)]
struct Runs {
    planned: usize,
    done: usize,
    /// The share of each run in progress that is done, by name.
    running: BTreeMap<String, f64>,
}

impl Runs {
    fn advance(&mut self, name: &str, share: f64) {
        if share >= 1.0 {
            self.running.remove(name);
            self.done += 1;
        } else {
            self.running.insert(name.to_owned(), share);
        }
    }

    /// The number of runs that are done, with the done shares of those in progress.
    fn completed(&self) -> f64 {
        self.done as f64 + self.running.values().sum::<f64>()
    }

    fn message(&self) -> String {
        let running: Vec<String> = self
            .running
            .iter()
            .map(|(name, share)| format!("{name} {:.0} %", 100.0 * share))
            .collect();
        format!("{}; {} of {} runs done", running.join(", "), self.done, self.planned)
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn runs_in_progress_count_by_their_share() {
        let mut runs = Runs { planned: 4, ..Runs::default() };
        let mut check = |name: &str, share: f64, completed: f64, message: &str| {
            runs.advance(name, share);
            assert_eq!((runs.completed(), runs.message().as_str()), (completed, message));
        };
        check("reactive", 0.0, 0.0, "reactive 0 %; 0 of 4 runs done");
        check("ensemble", 0.25, 0.25, "ensemble 25 %, reactive 0 %; 0 of 4 runs done");
        check("reactive", 1.0, 1.25, "ensemble 25 %; 1 of 4 runs done");
        check("ensemble", 0.5, 1.5, "ensemble 50 %; 1 of 4 runs done");
        check("oracle", 0.5, 2.0, "ensemble 50 %, oracle 50 %; 1 of 4 runs done");
    }
}
