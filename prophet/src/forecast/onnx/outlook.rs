//! A network's quantiles as distributions of the new nodes needed.

use super::network::Answer;
use super::spec::Spec;
use crate::forecast::hyperparameters::AHEAD_TICKS;
use crate::forecast::{Ahead, Distribution, Lead};

/// More nodes than this within one lead are counted as this many: no cluster has more.
const NODES_MAX: u32 = 20_000;

/// By bucket of the answer, the new nodes needed within the lead; `present` is the demand that quantiles of demand are measured from. `None` where the
/// network looks less far than that.
pub(super) fn new_nodes(
    spec: &Spec,
    answer: &Answer,
    present: &[u64],
    lead: Lead,
) -> Option<Vec<Distribution>> {
    let levels = spec.levels.len();
    let seconds = i64::try_from(lead.ticks()).ok()?.checked_mul(lead.tick_seconds)?;
    let trained = spec.lead_seconds.is_some_and(|[least, most]| (least..=most).contains(&seconds));
    if trained && !answer.headroom.is_empty() {
        return Some(answer.headroom.chunks(levels).map(|row| distribution(&spec.levels, row)).collect());
    }
    let ticks = usize::try_from((seconds + spec.tick_seconds - 1) / spec.tick_seconds.max(1)).ok()?;
    if ticks > spec.horizon {
        return None;
    }
    let rows = rows(spec, answer).zip(present);
    let bucket = |(row, present): (&[f32], &u64)| {
        // The quantile of a maximum is at least the maximum of the quantiles.
        let most = |level: usize| (0..ticks).map(|tick| row[tick * levels + level]).fold(0.0, f32::max);
        let rise: Vec<f32> = (0..levels).map(|level| (most(level) - *present as f32).max(0.0)).collect();
        distribution(&spec.levels, &rise)
    };
    Some(rows.map(bucket).collect())
}

/// By bucket of the answer, demand so many of our ticks ahead: that of the network's tick in which it falls. `None` where the network looks
/// less far.
pub(super) fn ahead(spec: &Spec, answer: &Answer, ticks: usize, tick_seconds: i64) -> Option<Vec<Ahead>> {
    let tick = its_tick(spec, ticks, tick_seconds)?;
    let bucket = |row: &[f32]| {
        let quantiles = quantiles(spec, row, tick);
        Ahead { mean: median(&spec.levels, quantiles), demand: distribution(&spec.levels, quantiles) }
    };
    Some(rows(spec, answer).map(bucket).collect())
}

/// By bucket of the answer, the median of demand 1, 2, ... of our ticks ahead, as far as the network looks and we follow it.
pub(super) fn medians(spec: &Spec, answer: &Answer, tick_seconds: i64) -> Vec<Vec<f64>> {
    let places: Vec<usize> =
        (1..=AHEAD_TICKS).map_while(|ticks| its_tick(spec, ticks, tick_seconds)).collect();
    let bucket = |row: &[f32]| {
        let medians: Vec<f64> =
            (0..spec.horizon).map(|tick| median(&spec.levels, quantiles(spec, row, tick))).collect();
        places.iter().map(|tick| medians[*tick]).collect()
    };
    rows(spec, answer).map(bucket).collect()
}

/// The network's tick, from 0, in which so many of ours fall.
fn its_tick(spec: &Spec, ticks: usize, tick_seconds: i64) -> Option<usize> {
    let seconds = i64::try_from(ticks).ok()?.checked_mul(tick_seconds)?;
    let tick = usize::try_from((seconds + spec.tick_seconds - 1) / spec.tick_seconds.max(1)).ok()?;
    tick.checked_sub(1).filter(|tick| *tick < spec.horizon)
}

/// Of each bucket, its quantiles by tick and level.
fn rows<'a>(spec: &Spec, answer: &'a Answer) -> impl Iterator<Item = &'a [f32]> {
    answer.quantiles.chunks(spec.horizon * spec.levels.len())
}

fn quantiles<'a>(spec: &Spec, row: &'a [f32], tick: usize) -> &'a [f32] {
    &row[tick * spec.levels.len()..(tick + 1) * spec.levels.len()]
}

/// The median that quantiles imply, drawn straight between levels. The mean would be the best by its square, were it demand that is
/// forecast: but it is the maximum of a tick, whose mean lies above demand (on Philly, the square is a third larger).
fn median(levels: &[f64], quantiles: &[f32]) -> f64 {
    let nodes = |at: usize| quantiles.get(at).map_or(0.0, |nodes| f64::from(*nodes).max(0.0));
    match levels.iter().position(|level| *level >= 0.5) {
        None => nodes(quantiles.len().saturating_sub(1)),
        Some(0) => nodes(0),
        Some(at) => {
            let (low, high) = (levels[at - 1], levels[at]);
            nodes(at - 1) + (nodes(at) - nodes(at - 1)) * (0.5 - low) / (high - low)
        }
    }
}

/// Quantiles are real and counts are whole: a count is enough where the quantile, drawn straight between levels, stays within half a node of
/// it. Nothing is known above the last level, so its count is enough for all.
fn distribution(levels: &[f64], quantiles: &[f32]) -> Distribution {
    let points: Vec<(f64, f64)> =
        levels.iter().zip(quantiles).map(|(&level, &nodes)| (level, f64::from(nodes))).collect();
    let chance = |count: u32| {
        let edge = f64::from(count) + 0.5;
        match points.iter().position(|(_, nodes)| *nodes >= edge) {
            None => 1.0,
            Some(0) => 0.0,
            Some(at) => {
                let ((low, from), (high, to)) = (points[at - 1], points[at]);
                low + (high - low) * (edge - from) / (to - from)
            }
        }
    };
    let mut below = 0.0;
    let mut steps = Vec::new();
    for count in 0..=NODES_MAX {
        let enough = if count == NODES_MAX { 1.0 } else { chance(count) };
        steps.push((u64::from(count), enough - below));
        below = enough;
        if enough >= 1.0 {
            break;
        }
    }
    Distribution::weighted(steps.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(quantiles: &[f32], chances: &[(u64, f64)]) {
        let found = distribution(&[0.5, 0.9, 0.99], quantiles);
        for &(count, chance) in chances {
            let have = 1.0 - found.chance_of(count + 1);
            assert!((have - chance).abs() < 1e-6, "{count}: {have}, expected {chance}");
        }
    }

    #[test]
    fn the_median_lies_between_levels() {
        let near = |levels: &[f64], quantiles: &[f32], expected: f64| {
            assert!((median(levels, quantiles) - expected).abs() < 1e-6, "{levels:?}");
        };
        near(&[0.1, 0.5, 0.9], &[0.0, 2.0, 9.0], 2.0);
        near(&[0.4, 0.8], &[1.0, 5.0], 2.0);
        near(&[0.6, 0.8], &[1.0, 5.0], 1.0);
        near(&[0.1, 0.2], &[-3.0, 4.0], 4.0);
    }

    #[test]
    fn a_count_is_enough_where_the_quantile_is_within_half_a_node_of_it() {
        check(&[0.0, 0.0, 0.2], &[(0, 1.0)]);
        check(&[0.0, 1.0, 1.0], &[(0, 0.7), (1, 1.0)]);
        check(&[0.0, 0.0, 3.0], &[(0, 0.915), (1, 0.945), (2, 0.975), (3, 1.0)]);
        check(&[2.0, 2.0, 2.0], &[(1, 0.0), (2, 1.0)]);
        check(&[1e9, 1e9, 1e9], &[(19_999, 0.0), (20_000, 1.0)]);
    }
}
