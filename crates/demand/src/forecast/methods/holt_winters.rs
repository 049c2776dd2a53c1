//! Exponential smoothing with a damped trend, a daily season and a fading deviation.
//!
//! The level and the season follow Holt (1957) and Winters (1960), and the damped trend follows
//! Gardner (1985). The deviation follows Taylor (2003). It is needed because the level is too slow
//! to follow demand within minutes.
//!
//! With the error e = y - (l + φ b + s), the level l, the trend b and the season s follow demand y
//! slowly:
//!
//! ```text
//! l = l + φ b + α e        b = φ b + α β e        s = s + γ e        r = y - (l + s)
//! ŷ(h) = l + (φ + φ² + ... + φ^h) b + s(t + h) + λ^h r
//! ```
//!
//! Here r is the deviation, and ŷ(h) is the forecast h ticks ahead. The season is interpolated
//! linearly between 96 points of the day, and e moves the two nearest points in proportion to their
//! nearness. The forecast uses the candidate pair (γ, λ) with the least decayed squared error one
//! tick ahead.

use embedder::BucketId;

use super::paths::Path;
use crate::forecast::hyperparameters::{
    HALF_LIFE_SECONDS, SMOOTHING_HALF_LIFE_SECONDS, SMOOTHING_LASTS, SMOOTHING_SEASONS,
    SMOOTHING_TREND,
};
use crate::forecast::lead::Lead;
use crate::record::History;

/// Holt-Winters smoothing of the demand of one bucket, with one model for each pair (γ, λ).
pub struct HoltWinters {
    speed: Speed,
    models: Vec<Model>,
    /// The time of the last tick in Unix seconds.
    now: Option<i64>,
}

/// The parameters that all models share.
#[derive(Clone, Copy, Debug)]
struct Speed {
    tick_seconds: i64,
    /// φ and 1 - α, which are equal, per tick.
    keep: f64,
    /// The factor by which squared errors decay in one tick.
    remember: f64,
}

struct Model {
    /// γ per tick.
    season_follow: f64,
    /// λ per tick.
    lasts: f64,
    level: f64,
    trend: f64,
    season: Season,
    /// r, in nodes.
    deviation: f64,
    squared_error: f64,
}

impl Path for HoltWinters {
    fn new(lead: Lead) -> Self {
        let tick = lead.tick_seconds as f64;
        let kept = |half_life: f64| (-tick / half_life).exp2();
        let follow = |share: f64| (share * tick / APART_SECONDS as f64).min(1.0);
        let model = |share, lasts: f64| Model::new(follow(share), lasts.powf(tick / 60.0));
        let pairs =
            SMOOTHING_LASTS.iter().flat_map(|&lasts| SMOOTHING_SEASONS.map(|share| (share, lasts)));
        Self {
            speed: Speed {
                tick_seconds: lead.tick_seconds,
                keep: kept(SMOOTHING_HALF_LIFE_SECONDS),
                remember: kept(HALF_LIFE_SECONDS),
            },
            models: pairs.map(|(share, lasts)| model(share, lasts)).collect(),
            now: None,
        }
    }

    fn learn(&mut self, history: &History, bucket: BucketId) {
        let Some(tick) = history.last() else { return };
        let (time, demand) =
            (tick.time.timestamp(), tick.buckets.get(bucket).map_or(0, |b| b.demand) as f64);
        let first = self.now.replace(time).is_none();
        for model in &mut self.models {
            if first {
                model.level = demand;
            }
            model.learn(time, demand, self.speed);
        }
    }

    fn ahead(&self, ticks: usize) -> Vec<f64> {
        let best = self.models.iter().min_by(|a, b| a.squared_error.total_cmp(&b.squared_error));
        let (Some(best), Some(now)) = (best, self.now) else { return vec![0.0; ticks] };
        best.ahead(ticks, now, self.speed)
    }
}

impl Model {
    fn new(season_follow: f64, lasts: f64) -> Self {
        let season = Season { points: [0.0; POINTS] };
        let (level, trend, deviation, squared_error) = (0.0, 0.0, 0.0, 0.0);
        Self { season_follow, lasts, level, trend, season, deviation, squared_error }
    }

    fn learn(&mut self, time: i64, demand: f64, speed: Speed) {
        let Speed { keep, remember, .. } = speed;
        let (trend, follow) = (keep * self.trend, 1.0 - keep);
        let error = demand - (self.level + trend + self.season.at(time));
        let missed = error - self.lasts * self.deviation;
        self.squared_error = remember * self.squared_error + (1.0 - remember) * missed * missed;
        self.level += trend + follow * error;
        self.trend = trend + follow * SMOOTHING_TREND * error;
        self.season.add(time, self.season_follow * error);
        self.deviation = demand - (self.level + self.season.at(time));
    }

    fn ahead(&self, ticks: usize, now: i64, speed: Speed) -> Vec<f64> {
        let Self { mut level, mut trend, mut deviation, .. } = *self;
        let mut time = now;
        let mut next = || {
            trend *= speed.keep;
            level += trend;
            deviation *= self.lasts;
            time += speed.tick_seconds;
            level + self.season.at(time) + deviation
        };
        (0..ticks).map(|_| next()).collect()
    }
}

/// Number of points of the season: one every quarter of an hour of a day.
const POINTS: usize = 96;

/// Distance between two points of the season, in seconds: a quarter of an hour, one day divided by
/// [`POINTS`].
const APART_SECONDS: i64 = 900;

/// The season: a periodic function of the time of day, linear between its points, in nodes.
struct Season {
    points: [f64; POINTS],
}

impl Season {
    fn at(&self, time: i64) -> f64 {
        about(time).iter().map(|(point, near)| near * self.points[*point]).sum()
    }

    fn add(&mut self, time: i64, by: f64) {
        for (point, near) in about(time) {
            self.points[point] += near * by;
        }
    }
}

/// Returns the points before and after a time in Unix seconds, with their interpolation weights,
/// which sum to 1.
fn about(time: i64) -> [(usize, f64); 2] {
    let of_day = time.rem_euclid(86_400);
    let before = usize::try_from(of_day / APART_SECONDS).unwrap_or(0) % POINTS;
    let after = (of_day % APART_SECONDS) as f64 / APART_SECONDS as f64;
    [(before, 1.0 - after), ((before + 1) % POINTS, after)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// Let φ = 1 - α = .5, β = .1, γ = .2 and λ = .5. From l = 2, b = 2, s = 0, r = 1 and y = 4
    /// follows e = 4 - 3 = 1, of which the deviation forecast .5. Then l = 3.5, b = 1.05, s = .2 at
    /// the point of the time, and r = .3.
    #[test]
    fn level_trend_and_season_follow_the_error() {
        let mut model = Model { level: 2.0, trend: 2.0, deviation: 1.0, ..Model::new(0.2, 0.5) };
        let speed = Speed { tick_seconds: 450, keep: 0.5, remember: 0.5 };
        model.learn(0, 4.0, speed);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, {b}");
        near(model.level, 3.5);
        near(model.trend, 1.05);
        near(model.season.at(0), 0.2);
        near(model.deviation, 0.3);
        near(model.squared_error, 0.125);
        // Halfway to the next point the forecast is 3.5 + .525 + .1 + .15. At the next point it is
        // 3.5 + .525 + .2625 + .075.
        let ahead = model.ahead(2, 0, speed);
        near(ahead[0], 4.275);
        near(ahead[1], 4.3625);
    }

    #[test]
    fn the_season_is_periodic() {
        assert_eq!(about(86_400 - 225), [(95, 0.25), (0, 0.75)]);
        assert_eq!(about(-86_400), [(0, 1.0), (1, 0.0)]);
    }

    /// Each day demand rises by 12 nodes from 8:00 to 9:00 and falls back at midnight.
    #[test]
    fn a_daily_season_is_learnt() {
        let (mut model, mut history) =
            (HoltWinters::new(sample::LEAD), History::new(&sample::catalog()));
        for minute in 0..12 * 1_440 + 480 {
            let of_day = minute % 1_440;
            let demand = if of_day < 480 { 0 } else { ((of_day - 480) / 5).min(12) };
            let demand = u64::try_from(demand).unwrap();
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }],
            ));
            model.learn(&history, 0);
        }
        let ahead = model.ahead(60);
        assert!((7.0..14.0).contains(&ahead[59]), "{}", ahead[59]);
    }
}
