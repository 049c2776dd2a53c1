//! Keeps the runs of the demo together, and at its speed.
//!
//! Until the evaluated time, no run is more than an hour ahead of another. From then on, no run
//! passes the time that the speed allows, or is more than a tick ahead of another.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::Stopwatch;

/// The speed of the demo, and the times that its runs have reached.
pub struct Pace {
    /// The simulated seconds in a second.
    speed: f64,
    /// When the evaluated time begins, in the log's seconds.
    from: i64,
    tick_seconds: i64,
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// The time that each run has reached, in the log's seconds.
    reached: Vec<i64>,
    /// Since when all runs have reached the evaluated time.
    started: Option<Stopwatch>,
}

/// How far a run may be ahead of another before the evaluated time, in seconds: an hour, so that
/// the curves of both move together, and the threads seldom wait for each other.
const LEARNING_AHEAD_MAX: i64 = 3_600;

/// The longest time for which a run waits at once. Runs are notified earlier when another moves.
const WAIT_MAX: Duration = Duration::from_millis(200);

impl Pace {
    /// The pace of `runs` runs whose evaluated time begins at `from`.
    pub fn new(speed: f64, from: i64, tick_seconds: i64, runs: usize) -> Self {
        let state = State { reached: vec![i64::MIN; runs], started: None };
        Self { speed, from, tick_seconds, state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Blocks a run at a tick until it may go on.
    pub(super) fn wait(&self, run: usize, time: i64) {
        let mut state = self.state();
        state.reached[run] = time;
        if state.started.is_none() && state.reached.iter().all(|reached| *reached >= self.from) {
            state.started = Some(Stopwatch::now());
        }
        self.moved.notify_all();
        loop {
            let slowest = state.reached.iter().min().copied().unwrap_or(time);
            if time < self.from && time <= slowest.saturating_add(LEARNING_AHEAD_MAX) {
                return;
            }
            // How long the run waits for the clock. It also waits for slower runs.
            let ahead = state.started.map(|started| {
                let due = Duration::from_secs_f64((time - self.from) as f64 / self.speed);
                due.saturating_sub(started.elapsed())
            });
            if ahead.is_some_and(|ahead| ahead.is_zero()) && time <= slowest + self.tick_seconds {
                return;
            }
            let ahead = ahead.filter(|ahead| !ahead.is_zero()).unwrap_or(WAIT_MAX).min(WAIT_MAX);
            let waited = self.moved.wait_timeout(state, ahead);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Two runs with ticks of a minute from 0 on, whose evaluated time begins at 600.
    #[test]
    fn runs_stay_together() {
        let pace = Pace::new(1e9, 600, 60, 2);
        let reached = [AtomicI64::new(0), AtomicI64::new(0)];
        let run = |at: usize| {
            let other = &reached[1 - at];
            for time in (0..=1_200).step_by(60) {
                reached[at].store(time, Ordering::SeqCst);
                pace.wait(at, time);
                assert!(time < 660 || other.load(Ordering::SeqCst) >= time - 60);
            }
        };
        let run = &run;
        std::thread::scope(|scope| [0, 1].map(|at| scope.spawn(move || run(at))).map(drop));
    }

    /// The first of two runs is much slower before the evaluated time, which begins at 36000.
    #[test]
    fn runs_learn_together() {
        let pace = Pace::new(1e9, 36_000, 60, 2);
        let (slow, mut ahead) = (AtomicI64::new(0), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for time in (0..=36_000).step_by(600) {
                    std::thread::sleep(Duration::from_millis(1));
                    slow.store(time, Ordering::SeqCst);
                    pace.wait(0, time);
                }
            });
            for time in (0..=36_000).step_by(60) {
                pace.wait(1, time);
                ahead = ahead.max(time - slow.load(Ordering::SeqCst));
            }
        });
        assert!((60..=LEARNING_AHEAD_MAX).contains(&ahead), "{ahead}");
    }
}
