//! The counts of a log, and the forecasts of the models of the paper one tick ahead, for figures
//! like 1 and 8 of the paper.

use super::answer::JudgedForecast;
use super::horizon::Horizon;
use super::moments::Moments;
use super::table4;

/// The curves of a backtest in the paper's protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    /// The counts of the whole log, by bucket in use.
    pub(super) counts: Vec<Counts>,
    /// The scored ticks, by model with a row in the paper's table.
    pub(super) models: Vec<ModelCurves>,
}

/// The counts of a bucket.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// The index of the bucket in the catalog.
    pub(super) bucket: usize,
    /// The time in Unix seconds, and the count; the largest count of each bin of ticks.
    pub(super) points: Vec<(f64, f64)>,
}

/// The forecasts of a model.
#[derive(Clone, Debug)]
pub(super) struct ModelCurves {
    /// The name of the forecaster.
    pub(super) name: String,
    /// By bucket in use.
    pub(super) buckets: Vec<Vec<Forecast>>,
}

/// A forecast one tick ahead, and what came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Forecast {
    /// The time that was forecast, in Unix seconds.
    pub(super) time: f64,
    /// The count that was forecast.
    pub(super) expected: f64,
    /// The count that came.
    pub(super) actual: f64,
}

impl Forecast {
    /// Returns the forecast less the actual count.
    pub(super) fn error(&self) -> f64 {
        self.expected - self.actual
    }
}

/// The largest number of points of a line, close to the horizontal pixels of a plot.
const POINTS: usize = 600;

impl Curves {
    /// Returns the counts of a log, without forecasts yet.
    pub(super) fn new(moments: &Moments) -> Self {
        let ticks: Vec<usize> = (0..moments.len()).collect();
        let bins = ticks.chunks(ticks.len().div_ceil(POINTS).max(1));
        let of_bucket = |&bucket: &usize| {
            let count = |at: usize| moments.tick(at).buckets[bucket].demand;
            let most = |bin: &[usize]| {
                let at = bin.iter().copied().max_by_key(|at| count(*at)).unwrap_or(0);
                (moments.tick_time(at) as f64, count(at) as f64)
            };
            Counts { bucket, points: bins.clone().map(most).collect() }
        };
        Self { counts: moments.used.iter().map(of_bucket).collect(), models: Vec::new() }
    }

    /// Keeps the forecasts that a model made at a tick, if it has a row in the paper's table.
    pub(super) fn note(
        &mut self,
        moments: &Moments,
        name: &str,
        at: usize,
        answers: &[Vec<JudgedForecast>],
    ) {
        let next = Horizon::Ticks(1);
        let place = Horizon::ALL.iter().position(|horizon| *horizon == next).unwrap_or(0);
        let has_row = table4::ROWS.iter().any(|row| row.ours == name);
        let Some(answers) = answers.get(place).filter(|all| has_row && !all.is_empty()) else {
            return;
        };
        let known = self.models.iter().position(|model| model.name == name);
        let place = known.unwrap_or_else(|| {
            let buckets = vec![Vec::new(); moments.used.len()];
            self.models.push(ModelCurves { name: name.into(), buckets });
            self.models.len() - 1
        });
        let model = &mut self.models[place];
        for ((points, answer), bucket) in model.buckets.iter_mut().zip(answers).zip(&moments.used) {
            points.push(Forecast {
                time: moments.tick_time(at + 1) as f64,
                expected: answer.mean,
                actual: moments.actual(at, next, *bucket) as f64,
            });
        }
    }

    /// Returns the places of the most and of the least used bucket, by the sum of their counts.
    pub(super) fn widely_and_rarely_used(&self) -> Option<(usize, usize)> {
        let sum = |place: usize| self.counts[place].points.iter().map(|point| point.1).sum::<f64>();
        let places = || 0..self.counts.len();
        let widely = places().max_by(|a, b| sum(*a).total_cmp(&sum(*b)))?;
        let rarely = places().min_by(|a, b| sum(*a).total_cmp(&sum(*b)))?;
        Some((widely, rarely))
    }
}

/// Reduces forecasts to at most [`POINTS`]: each bin keeps the one with the largest error.
pub(super) fn reduced(points: &[Forecast]) -> Vec<Forecast> {
    let bins = points.chunks(points.len().div_ceil(POINTS).max(1));
    let worst = |bin: &[Forecast]| {
        bin.iter().copied().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))
    };
    bins.filter_map(worst).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_errors_remain() {
        let point = |at: u32| Forecast {
            time: at.into(),
            expected: if at == 777 { 9.0 } else { 1.0 },
            actual: f64::from(at % 2),
        };
        let all: Vec<Forecast> = (0..2_000).map(point).collect();
        let kept = reduced(&all);
        assert!(kept.len() <= POINTS && kept.contains(&all[777]), "{}", kept.len());
        assert!(kept.iter().all(|point| point.error() > 0.0));
    }
}
