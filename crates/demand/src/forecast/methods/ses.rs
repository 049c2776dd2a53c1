//! The paper's SES: seasonal exponential smoothing with a multiplicative season.
//!
//! It is the method of Holt (1957) and Winters (1960) with the parameters of the paper's section
//! 5.2, which prints α as the parameter of the trend and β as that of the level. They are used here
//! as in the literature: α for the level and β for the trend. With the level l, the trend b and the
//! season s of period m, demand y changes them to
//!
//! ```text
//! l' = α y / s(t) + (1 - α) (l + b)      b' = β (l' - l) + (1 - β) b
//! s(t + m) = γ y / l' + (1 - γ) s(t)     ŷ(h) = (l' + h b') s(t + h)
//! ```
//!
//! The paper takes a week as the period of its own log and of Philly, and a day for Fuxi. Demand
//! can be 0, where a ratio has no meaning. Therefore the level is at least 1 node, and the season
//! stays between a tenth and ten.

use embedder::BucketId;

use super::paths::Path;
use crate::forecast::lead::Lead;
use crate::record::History;

/// α: the part of an error that the level follows.
const LEVEL: f64 = 0.5;
/// γ: the part of an error that the season follows.
const SEASON: f64 = 0.3;
/// β: the part of a change of the level that the trend follows, with the season of a week.
const TREND_OF_WEEK: f64 = 0.001;
/// β with the season of a day.
const TREND_OF_DAY: f64 = 0.005;
/// The smallest and the largest factor of the season.
const FACTORS: (f64, f64) = (0.1, 10.0);
/// The smallest level, in nodes.
const LEVEL_MIN: f64 = 1.0;

/// Multiplicative smoothing of the demand of one bucket, with a season of `DAYS` days.
pub struct Ses<const DAYS: i64> {
    tick_seconds: i64,
    trend_follow: f64,
    /// The factor of demand, by tick of the season.
    season: Vec<f64>,
    level: f64,
    trend: f64,
    /// The number of the last tick, since 1970.
    now: Option<i64>,
}

impl<const DAYS: i64> Ses<DAYS> {
    fn place(&self, tick: i64) -> usize {
        let period = i64::try_from(self.season.len()).unwrap_or(i64::MAX);
        usize::try_from(tick.rem_euclid(period)).unwrap_or(0)
    }
}

impl<const DAYS: i64> Path for Ses<DAYS> {
    fn new(lead: Lead) -> Self {
        let tick_seconds = lead.tick_seconds.max(1);
        let period = usize::try_from(DAYS * 86_400 / tick_seconds).unwrap_or(1).max(1);
        let trend_follow = if DAYS < 7 { TREND_OF_DAY } else { TREND_OF_WEEK };
        let season = vec![1.0; period];
        Self { tick_seconds, trend_follow, season, level: LEVEL_MIN, trend: 0.0, now: None }
    }

    fn learn(&mut self, history: &History, bucket: BucketId) {
        let Some(tick) = history.last() else { return };
        let demand = tick.buckets.get(bucket).map_or(0, |bucket| bucket.demand) as f64;
        let number = tick.time.timestamp().div_euclid(self.tick_seconds);
        let place = self.place(number);
        let factor = self.season[place];
        if self.now.replace(number).is_none() {
            self.level = demand.max(LEVEL_MIN);
            return;
        }
        let before = self.level;
        let level = LEVEL * demand / factor + (1.0 - LEVEL) * (before + self.trend);
        self.level = level.max(LEVEL_MIN);
        self.trend =
            self.trend_follow * (self.level - before) + (1.0 - self.trend_follow) * self.trend;
        let factor = SEASON * demand / self.level + (1.0 - SEASON) * factor;
        self.season[place] = factor.clamp(FACTORS.0, FACTORS.1);
    }

    fn ahead(&self, ticks: usize) -> Vec<f64> {
        let Some(now) = self.now else { return vec![0.0; ticks] };
        let mut level = self.level;
        let numbers = (1..).take(ticks);
        let ahead = numbers.map(|h| {
            level += self.trend;
            level * self.season[self.place(now + h)]
        });
        ahead.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    fn learnt(demand: impl Iterator<Item = u64>) -> Ses<1> {
        let lead = Lead { seconds: 21_600, tick_seconds: 21_600 };
        let (mut model, mut history) = (Ses::new(lead), History::new(&sample::catalog()));
        for (at, demand) in (0..).zip(demand) {
            let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            history.record(sample::tick(360 * at, vec![bucket]));
            model.learn(&history, 0);
        }
        model
    }

    /// The level is 4 at first. Of 6 nodes follow the level .5 · 6 + .5 · 4 = 5, the trend
    /// .005 · 1 and the factor .3 · 6 / 5 + .7 = 1.06 of the second quarter of the day.
    #[test]
    fn level_trend_and_season_follow_the_ratios() {
        let model = learnt([4, 6].into_iter());
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, {b}");
        near(model.level, 5.0);
        near(model.trend, 0.005);
        near(model.season[1], 1.06);
        let ahead = model.ahead(4);
        near(ahead[0], 5.005);
        near(ahead[3], 5.02 * 1.06);
    }

    #[test]
    fn a_season_of_a_day_is_learnt_and_idle_quarters_do_not_end_it() {
        let model = learnt((0..400).map(|at| [0, 8, 16, 8][at % 4]));
        let ahead = model.ahead(4);
        assert!(ahead[0] < 2.0 && (10.0..19.0).contains(&ahead[2]), "{ahead:?}");
        assert!(ahead.iter().all(|nodes| nodes.is_finite()));
    }
}
