//! Past windows as long as the lead time, and weighted draws from them.
//!
//! The weight of a window depends on its recency, its nearness in time of day and its kind of day.
//! Weighing thousands of windows at each tick would be slow. Therefore windows are drawn into a
//! pool by these weights every ten minutes, and the similarity that a method adds is computed for
//! the pool only.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::forecast::hyperparameters::{
    DAY_SCALE_SECONDS, HALF_LIFE_SECONDS, OTHER_KIND_OF_DAY, POOL, POOL_SECONDS, STRIDE, WINDOWS,
    WINDOWS_MIN,
};
use crate::forecast::lead::Lead;
use crate::record::History;

/// Past windows. The method keeps a note `N` of the start of each window and a summary `S` of its
/// ticks.
///
/// Windows are numbered in the order of their ends.
#[derive(Clone)]
pub(crate) struct Windows<N, S> {
    ticks: usize,
    ages: Ages,
    /// The windows that have ended, oldest first. The first ones may be forgotten already; they
    /// stay until the next pool is due, because the present pool is drawn from them, too.
    closed: VecDeque<Window<N, S>>,
    /// Their starts, kept apart, because the weights of a pool are computed from all starts and
    /// from nothing else of the windows.
    starts: VecDeque<Start>,
    /// The number of the first window in `closed`.
    first: usize,
    /// The number of the oldest window that is not forgotten.
    oldest: usize,
    /// The windows that have not ended: the number of the tick and the time at which each starts,
    /// and its note. One window starts at every [`STRIDE`]-th tick.
    open: VecDeque<(usize, Start, N)>,
    /// The number of ticks learnt.
    learnt: usize,
    pool: Pool<N, S>,
}

/// A window that has ended. Its start is in [`Windows::starts`].
#[derive(Clone)]
struct Window<N, S> {
    /// The method's note of the start.
    note: N,
    /// The method's summary of the ticks in the window.
    seen: S,
}

/// A weighted draw of the windows that have ended when it is due. It is reused for
/// [`POOL_SECONDS`].
#[derive(Clone)]
struct Pool<N, S> {
    /// The time at which the pool is due, in Unix seconds.
    due: Option<i64>,
    /// The number of windows that have ended at that time.
    ended: usize,
    /// The number of changes of the pool so far.
    version: u64,
    /// The windows are drawn for the first forecast from the pool, because a method learns from
    /// many ticks before its first forecast.
    drawn: OnceLock<Drawn<N, S>>,
}

/// The windows in a pool, oldest first.
///
/// Notes and summaries are copied, so that they are adjacent in memory, because a forecast reads
/// all notes, and the summaries of the windows that it draws.
#[derive(Clone)]
struct Drawn<N, S> {
    /// The number of each window.
    windows: Vec<usize>,
    /// How often each window was drawn.
    times: Vec<u32>,
    /// The note of each window.
    notes: Vec<N>,
    /// The summary of each window.
    seen: Vec<S>,
}

impl<N: Copy, S: Clone> Windows<N, S> {
    pub(crate) fn new(lead: Lead) -> Self {
        Self {
            ticks: lead.ticks(),
            ages: Ages::new(lead),
            closed: VecDeque::new(),
            starts: VecDeque::new(),
            first: 0,
            oldest: 0,
            open: VecDeque::new(),
            learnt: 0,
            pool: Pool { due: None, ended: 0, version: 0, drawn: OnceLock::new() },
        }
    }

    /// Returns the length of a window in ticks.
    pub(crate) fn ticks(&self) -> usize {
        self.ticks
    }

    /// Returns whether too few windows have ended for a forecast.
    pub(crate) fn are_few(&self) -> bool {
        (self.ended() - self.oldest) * STRIDE < WINDOWS_MIN
    }

    /// Returns the number of windows that have ended.
    fn ended(&self) -> usize {
        self.first + self.closed.len()
    }

    /// Returns a number that changes with the pool. With the same number and the same similarities,
    /// [`Windows::draw`] draws the same windows.
    pub(crate) fn version(&self) -> u64 {
        self.pool.version
    }

    /// Learns from the last tick of `history`.
    ///
    /// `note` is called where a window starts with that tick, and `seen` where a window ends with
    /// it. Returns the summaries of windows from which nothing will be drawn any more.
    pub(crate) fn learn(
        &mut self,
        history: &History,
        note: impl FnOnce() -> N,
        seen: impl FnOnce() -> S,
    ) -> Vec<S> {
        let Some(now) = history.last().map(|tick| tick.time.timestamp()) else { return vec![] };
        if let Some((_, start, note)) =
            self.open.pop_front_if(|(at, ..)| *at + self.ticks == self.learnt)
        {
            self.closed.push_back(Window { note, seen: seen() });
            self.starts.push_back(start);
        }
        if self.learnt.is_multiple_of(STRIDE) {
            self.open.push_back((self.learnt, self.ages.start(now), note()));
        }
        self.learnt += 1;
        self.ages.reach(history.len());
        let horizon = history.get(0).map_or(now, |tick| tick.time.timestamp());
        let kept = self.starts.range(self.oldest - self.first..);
        self.oldest += kept.take_while(|start| self.ages.time(**start) < horizon).count();
        if self.pool.due.is_some_and(|due| (0..POOL_SECONDS).contains(&(now - due))) {
            self.pool.forget(self.oldest);
            return vec![];
        }
        self.pool = Pool {
            due: Some(now),
            ended: self.ended(),
            version: self.pool.version + 1,
            drawn: OnceLock::new(),
        };
        let forgotten = ..self.oldest - self.first;
        self.starts.drain(forgotten);
        let gone = self.closed.drain(forgotten);
        let gone = gone.map(|window| window.seen).collect();
        self.first = self.oldest;
        gone
    }

    /// Returns the windows in the pool that are not forgotten.
    fn pooled(&self) -> &Drawn<N, S> {
        self.pool.drawn.get_or_init(|| {
            let starts = self.starts.range(..self.pool.ended - self.first);
            let most = starts.len().min(POOL);
            let mut drawn = Drawn {
                windows: Vec::with_capacity(most),
                times: Vec::with_capacity(most),
                notes: Vec::with_capacity(most),
                seen: Vec::with_capacity(most),
            };
            let due = self.ages.start(self.pool.due.unwrap_or_default());
            draw(starts.map(|start| self.ages.weight(*start, due)), POOL, |at, times| {
                let window = self.first + at;
                if window >= self.oldest {
                    drawn.windows.push(window);
                    drawn.times.push(times);
                    drawn.notes.push(self.closed[at].note);
                    drawn.seen.push(self.closed[at].seen.clone());
                }
            });
            drawn
        })
    }

    /// Returns the starts of the windows in the pool, in Unix seconds, with their weights times
    /// `likeness`.
    pub(crate) fn moments(
        &self,
        likeness: impl Fn(&N) -> f64,
    ) -> impl ExactSizeIterator<Item = (i64, f64)> {
        let Drawn { windows, times, notes, .. } = self.pooled();
        windows.iter().zip(times).zip(notes).map(move |((window, times), note)| {
            let start = self.starts[window - self.first];
            (self.ages.time(start), f64::from(*times) * likeness(note))
        })
    }

    /// Draws [`WINDOWS`] times from the pool.
    ///
    /// The weights of the windows in the pool are multiplied by factors. `likenesses` returns one
    /// for each note, in the order of the notes. It gets all notes at once, because it can then
    /// compare several in one step. Calls `drawn` for each window that was drawn, with the number
    /// of times.
    pub(crate) fn draw<'a, L: Iterator<Item = f64>>(
        &'a self,
        likenesses: impl FnOnce(&'a [N]) -> L,
        mut drawn: impl FnMut(&'a S, u32),
    ) {
        let Drawn { times, notes, seen, .. } = self.pooled();
        let weights = times.iter().zip(likenesses(notes));
        let weights = weights.map(|(times, likeness)| f64::from(*times) * likeness);
        draw(weights, WINDOWS, |at, times| drawn(&seen[at], times));
    }
}

impl<N, S> Pool<N, S> {
    /// Removes the windows with a number below `oldest`, if the pool is drawn.
    fn forget(&mut self, oldest: usize) {
        let Some(Drawn { windows, times, notes, seen }) = self.drawn.get_mut() else { return };
        let gone = windows.partition_point(|window| *window < oldest);
        if gone > 0 {
            windows.drain(..gone);
            times.drain(..gone);
            notes.drain(..gone);
            seen.drain(..gone);
            self.version += 1;
        }
    }
}

/// The start of a window, or the time at which a pool is due, split so that an age in ticks needs
/// no division. A division for each window took longer than the rest of the weighing.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// The number of ticks from 1970 on, rounded down.
    ticks: i64,
    /// The seconds that remain.
    rest: i64,
    /// Whether the time is on a weekend.
    weekend: bool,
}

/// The weights of windows by their age, which combine recency and nearness in time of day.
#[derive(Clone, Debug)]
struct Ages {
    tick_seconds: i64,
    /// The weights by age in ticks, in [0, 1]. Ages beyond it occur only where ticks are missing.
    weights: Vec<f32>,
}

impl Ages {
    fn new(lead: Lead) -> Self {
        Self { tick_seconds: lead.tick_seconds.max(1), weights: Vec::new() }
    }

    /// Returns a time in Unix seconds as the start of a window.
    fn start(&self, time: i64) -> Start {
        Start {
            ticks: time.div_euclid(self.tick_seconds),
            rest: time.rem_euclid(self.tick_seconds),
            weekend: weekend(time),
        }
    }

    /// Returns the time of a start in Unix seconds.
    fn time(&self, start: Start) -> i64 {
        start.ticks * self.tick_seconds + start.rest
    }

    /// Extends the table of weights to ages of up to `ticks` ticks.
    fn reach(&mut self, ticks: usize) {
        while self.weights.len() <= ticks {
            self.weights.push(self.of_age(self.weights.len()));
        }
    }

    /// Returns the weight of a window at `now`, including the factor for its kind of day.
    #[inline]
    fn weight(&self, start: Start, now: Start) -> f64 {
        let age = now.ticks - start.ticks - i64::from(now.rest < start.rest);
        let Ok(age) = usize::try_from(age) else { return 0.0 };
        let weight = self.weights.get(age).copied().unwrap_or_else(|| self.of_age(age));
        f64::from(weight) * kind_of_day(start.weekend, now.weekend)
    }

    fn of_age(&self, ticks: usize) -> f32 {
        let age = ticks as f64 * self.tick_seconds as f64;
        let around = age.rem_euclid(86_400.0);
        let apart = around.min(86_400.0 - around);
        #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more precision")]
        let weight =
            ((-age / HALF_LIFE_SECONDS).exp2() * (-apart / DAY_SCALE_SECONDS).exp()) as f32;
        weight
    }
}

/// Returns whether a time in Unix seconds is on a weekend in UTC.
fn weekend(time: i64) -> bool {
    // 1970-01-01 was a Thursday, so days 2 and 3 of each week are Saturday and Sunday.
    matches!(time.div_euclid(86_400).rem_euclid(7), 2 | 3)
}

/// Returns the factor for the kind of day, which is working day or weekend in UTC.
#[inline]
fn kind_of_day(start_on_weekend: bool, now_on_weekend: bool) -> f64 {
    if start_on_weekend == now_on_weekend { 1.0 } else { OTHER_KIND_OF_DAY }
}

/// Draws `count` times by weight and calls `drawn` with each drawn position and the number of
/// times.
///
/// The draw is systematic resampling, so each position is drawn in proportion to its weight, except
/// for rounding.
pub(crate) fn draw(
    weights: impl Iterator<Item = f64>,
    count: usize,
    mut drawn: impl FnMut(usize, u32),
) {
    // The sums are computed in a loop of their own, because the total then stays in a register.
    let mut sums: Vec<f64> = weights.collect();
    let mut total = 0.0;
    for sum in &mut sums {
        total += *sum;
        *sum = total;
    }
    let step = total / count as f64;
    // Weights below the smallest normal number cannot be distinguished, and rounding could make the
    // draw endless.
    if !(step.is_finite() && step > f64::MIN_POSITIVE) {
        return;
    }
    let mut next = 0.5 * step;
    for (at, sum) in sums.into_iter().enumerate() {
        let mut times = 0;
        while next < sum {
            next += step;
            times += 1;
        }
        if times > 0 {
            drawn(at, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// Pools are drawn late here and at each tick there, over 21,000 minutes, so that windows are
    /// forgotten, too. Both must contain the same windows.
    #[test]
    fn a_pool_that_is_drawn_late_has_the_same_windows() {
        let mut history = History::new(&sample::catalog());
        let [mut late, mut prompt] = [(), ()].map(|()| Windows::<i64, i64>::new(sample::LEAD));
        for minute in 0..21_000 {
            history.record(sample::tick(minute, vec![]));
            for windows in [&mut late, &mut prompt] {
                windows.learn(&history, || minute, || minute);
            }
            let moments = |windows: &Windows<i64, i64>| -> Vec<(i64, f64)> {
                windows.moments(|note| 1.0 + (note % 7) as f64).collect()
            };
            let all = moments(&prompt);
            if minute > 20_300 && minute % 13 == 0 {
                assert_eq!(moments(&late), all, "{minute}");
                assert_eq!((late.are_few(), all.is_empty()), (false, false));
                for windows in [&late, &prompt] {
                    // A note is the minute of the start.
                    let notes = windows.closed.iter().map(|window| 60 * window.note);
                    let starts = windows.starts.iter().map(|start| windows.ages.time(*start));
                    assert!(notes.eq(starts), "{minute}");
                    // A window ends three ticks after its start, where its summary is made.
                    let mut pool = windows.pooled().notes.iter();
                    let mut draws = 0;
                    windows.draw(
                        |notes| notes.iter().map(|start| f64::from(u8::from(start % 2 == 0))),
                        |end, times| {
                            let start = pool.find(|start| *start + 3 == *end);
                            assert!(start.is_some_and(|start| start % 2 == 0), "{minute}: {end}");
                            draws += times;
                        },
                    );
                    assert_eq!(draws, 400, "{minute}");
                }
            }
        }
    }

    #[track_caller]
    fn check(weights: &[f64], expected: &[(usize, u32)]) {
        let mut drawn = Vec::new();
        draw(weights.iter().copied(), 400, |at, times| drawn.push((at, times)));
        assert_eq!(drawn, expected);
    }

    #[test]
    fn windows_are_drawn_in_proportion_to_their_weights() {
        check(&[1.0, 2.0, 1.0], &[(0, 100), (1, 200), (2, 100)]);
        check(&[0.0, 5.0], &[(1, 400)]);
        check(&[0.0, 0.0], &[]);
        check(&[], &[]);
    }

    /// A window one day ago is at the same time of day, and a window half a day ago is not. One
    /// week halves the weight.
    #[test]
    fn weights_depend_on_age_and_time_of_day() {
        let mut ages = Ages::new(Lead { seconds: 300, tick_seconds: 3_600 });
        ages.reach(200);
        let at = |hours: i64| ages.weight(ages.start(0), ages.start(3_600 * hours));
        assert!((at(0) - 1.0).abs() < 1e-6);
        assert!((at(168) - 0.5).abs() < 1e-6);
        assert!((at(2) - (-1.0_f64).exp() * (-2.0_f64 / 168.0).exp2()).abs() < 1e-6);
        assert!(at(24) > 0.9 && at(12) < 0.01);
        // Hour 48 is on a Saturday.
        let expected = OTHER_KIND_OF_DAY * (-48.0_f64 / 168.0).exp2();
        assert!((at(48) - expected).abs() < 1e-6);
    }

    /// The age of a window is the time since its start, rounded down to whole ticks. A window that
    /// starts later, because the clock was set back, has no weight.
    #[test]
    fn an_age_is_rounded_down_to_whole_ticks() {
        let mut ages = Ages::new(Lead { seconds: 300, tick_seconds: 7 });
        ages.weights = vec![0.5, 0.25, 0.125, 0.0625];
        for start in -20..20 {
            for now in -20..(start + 28) {
                let age = usize::try_from(i64::div_euclid(now - start, 7));
                let expected = age.map_or(0.0, |age| f64::from(ages.weights[age]));
                let weight = ages.weight(ages.start(start), ages.start(now));
                assert!((weight - expected).abs() < 1e-12, "{start} {now}: {weight}");
            }
        }
    }

    #[test]
    fn weekends_differ_from_working_days() {
        let factor = |start: i64, now: i64| {
            kind_of_day(weekend(86_400 * start + 5), weekend(86_400 * now + 5))
        };
        // 1970-01-02 was a Friday.
        assert!((factor(1, 2) - OTHER_KIND_OF_DAY).abs() < 1e-12);
        assert!((factor(2, 3) - 1.0).abs() < 1e-12);
        assert!((factor(4, 8) - 1.0).abs() < 1e-12);
    }
}
