//! The progress of a long command on standard error: a line that is redrawn on a terminal. In a
//! file or a pipe, a line is printed after two seconds, and then twice a minute.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use simulator::{NamedPolicy, Progress};

/// The line that is drawn now. Ctrl-C removes it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The time between two drawings, so that the clock moves while nothing else does.
const REDRAW: Duration = Duration::from_millis(200);

/// The time until the first line that is not drawn on a terminal, and between two such lines.
const LINES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

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
    let bar = show("{spinner} {wide_msg} {elapsed_precise}", name);
    let result = with_lines(&bar, &|| name.to_owned(), work);
    clear();
    result
}

/// Does some work. Where the bar is not drawn on a terminal, prints lines meanwhile.
fn with_lines<T>(
    bar: &ProgressBar,
    line: &(dyn Fn() -> String + Sync),
    work: impl FnOnce() -> T,
) -> T {
    if !bar.is_hidden() {
        return work();
    }
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut wait = LINES.0;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // A reader that closed the pipe does not need the result less.
                let _ = writeln!(io::stderr(), "prophet: {}", line());
                wait = LINES.1;
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Does work that consists of runs, while a bar shows how much of it is done, the runs in progress,
/// and the elapsed and the remaining time.
pub(super) fn of_runs<T>(work: impl FnOnce(&Progress<'_>) -> T) -> T {
    let template = "{bar:12} {percent:>3} %  {elapsed_precise}  {wide_msg}";
    let bar = show(template, "preparing");
    let runs = Mutex::new(Runs::default());
    let draw = |change: &dyn Fn(&mut Runs)| {
        let mut runs = locked(&runs);
        change(&mut runs);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares >= 0")]
        let whole = |share: f64| (PER_RUN * share) as u64;
        bar.set_length(whole(runs.planned as f64));
        bar.set_position(whole(runs.completed()));
        bar.set_message(runs.message(bar.elapsed()));
    };
    let progress = Progress {
        planned: &|count| draw(&|runs| runs.planned += count),
        advanced: &|name, share| draw(&|runs| runs.advance(name, share, bar.elapsed())),
    };
    let line = || locked(&runs).line(bar.elapsed());
    let result = with_lines(&bar, &line, || work(&progress));
    clear();
    result
}

/// Does work that begins with the warm-up of these policies, while a line shows the share of it
/// that is done. The line goes when the slowest policy is warm.
pub(super) fn of_warm_up<T>(
    policies: &[NamedPolicy],
    work: impl FnOnce(&(dyn Fn(NamedPolicy, f64) + Sync)) -> T,
) -> T {
    let bar = show("{bar:12} {percent:>3} %  {elapsed_precise}  {wide_msg}", "learning");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares >= 0")]
    let whole = |share: f64| (PER_RUN * share) as u64;
    bar.set_length(whole(1.0));
    let warm_up = Mutex::new(WarmUp::of(policies));
    work(&|policy, share| {
        let least = locked(&warm_up).advance(policy, share);
        if least < 1.0 { bar.set_position(whole(least)) } else { clear() }
    })
}

/// The share of the warm-up that is done, by policy.
struct WarmUp(BTreeMap<String, f64>);

impl WarmUp {
    fn of(policies: &[NamedPolicy]) -> Self {
        Self(policies.iter().map(|policy| (policy.to_string(), 0.0)).collect())
    }

    /// Sets the share of a policy, and returns that of the slowest one.
    fn advance(&mut self, policy: NamedPolicy, share: f64) -> f64 {
        self.0.insert(policy.to_string(), share);
        self.0.values().copied().fold(1.0, f64::min)
    }
}

/// The state of the runs of a command. Times are since its start.
#[derive(Default)]
struct Runs {
    planned: usize,
    done: usize,
    /// The sum of the times that the done runs took, in seconds.
    seconds_done: f64,
    /// The runs in progress, by name.
    running: BTreeMap<String, Running>,
}

/// A run in progress.
struct Running {
    start: Duration,
    /// The share that is done, below 1.
    share: f64,
}

impl Running {
    /// The time that the run has left, in seconds, at the rate of its past. `None` at its start.
    fn seconds_left(&self, now: Duration) -> Option<f64> {
        let passed = now.saturating_sub(self.start).as_secs_f64();
        (self.share > 0.0).then(|| passed * (1.0 - self.share) / self.share)
    }
}

impl Runs {
    fn advance(&mut self, name: &str, share: f64, now: Duration) {
        if share < 1.0 {
            let new = || Running { start: now, share };
            self.running.entry(name.to_owned()).or_insert_with(new).share = share;
        } else if let Some(Running { start, .. }) = self.running.remove(name) {
            self.done += 1;
            self.seconds_done += now.saturating_sub(start).as_secs_f64();
        }
    }

    /// The number of runs that are done, with the done shares of those in progress.
    fn completed(&self) -> f64 {
        self.done as f64 + self.running.values().map(|run| run.share).sum::<f64>()
    }

    /// The time until all planned runs are done, in seconds, if a run that has not started takes as
    /// long as the others on average. `None` until each run in progress has a rate.
    ///
    /// The rate of each run counts by itself, because a policy may take a hundred times as long as
    /// another.
    fn seconds_left(&self, now: Duration) -> Option<f64> {
        let running = self.running.values().map(|run| run.seconds_left(now));
        let left = running.collect::<Option<Vec<f64>>>()?;
        let passed = |run: &Running| now.saturating_sub(run.start).as_secs_f64();
        let sum = left.iter().sum::<f64>();
        let total = self.seconds_done + self.running.values().map(passed).sum::<f64>() + sum;
        let known = self.done + left.len();
        let waiting = self.planned.saturating_sub(known) as f64 * total / known.max(1) as f64;
        let longest = left.iter().copied().fold(0.0, f64::max);
        Some(longest.max((sum + waiting) / left.len().max(1) as f64))
    }

    /// A line for a file or a pipe.
    fn line(&self, now: Duration) -> String {
        let share = self.completed() / self.planned.max(1) as f64;
        format!("{:.0} %, {}", 100.0 * share, self.message(now))
    }

    fn message(&self, now: Duration) -> String {
        let names = self.running.iter();
        let names: Vec<String> =
            names.map(|(name, run)| format!("{name} {:.0} %", 100.0 * run.share)).collect();
        if names.is_empty() {
            return "preparing".into();
        }
        let left = self.seconds_left(now).map_or_else(String::new, |seconds| {
            let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            format!("{:#} left, ", HumanDuration(left))
        });
        format!("{left}{} of {} done, {}", self.done, self.planned, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Runs, WarmUp};
    use simulator::NamedPolicy;

    #[test]
    fn a_warm_up_is_over_when_the_slowest_policy_is_warm() {
        let (fast, slow) = (NamedPolicy::Reactive, NamedPolicy::DEFAULT);
        let mut warm_up = WarmUp::of(&[fast, slow]);
        let steps = [(fast, 0.5, 0.0), (fast, 1.0, 0.0), (slow, 0.25, 0.25), (slow, 1.0, 1.0)];
        for (policy, share, least) in steps {
            assert_eq!(warm_up.advance(policy, share).to_bits(), f64::to_bits(least));
        }
    }

    #[test]
    fn each_run_counts_by_its_share_and_its_own_rate() {
        let mut runs = Runs { planned: 4, ..Runs::default() };
        let mut check = |name: &str, share: f64, now: u64, completed: f64, message: &str| {
            let now = Duration::from_secs(now);
            runs.advance(name, share, now);
            assert_eq!((runs.completed(), runs.message(now).as_str()), (completed, message));
        };
        check("reactive", 0.0, 0, 0.0, "0 of 4 done, reactive 0 %");
        check("reactive", 0.5, 5, 0.5, "35s left, 0 of 4 done, reactive 50 %");
        check("reactive", 1.0, 10, 1.0, "preparing");
        check("ensemble", 0.0, 10, 1.0, "1 of 4 done, ensemble 0 %");
        check("ensemble", 0.25, 35, 1.25, "3m left, 1 of 4 done, ensemble 25 %");
        check("oracle", 0.0, 35, 1.25, "1 of 4 done, ensemble 25 %, oracle 0 %");
        let line = runs.line(Duration::from_secs(35));
        assert_eq!(line, "31 %, 1 of 4 done, ensemble 25 %, oracle 0 %");
    }
}
