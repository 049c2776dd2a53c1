//! The output quantiles of a model as distributions of the new nodes needed.

use super::spec::Spec;
use super::tensors::{ModelOutput, Wanted};
use crate::forecast::hyperparameters::AHEAD_TICKS;
use crate::forecast::{demand_ahead::Ahead, distribution::Distribution, lead::Lead};

/// Largest number of new nodes in a distribution. Larger counts become this one, because no cluster
/// has more nodes.
const NODES_MAX: u32 = 20_000;

/// Returns the new nodes needed within the lead time, by bucket of the output.
///
/// The output `headroom` is used if the model has it and was trained for this lead time. Otherwise
/// the new nodes are the rise of the quantiles of demand above `present`, the demand of the last
/// tick in nodes. Returns `None` if that is needed and the horizon is shorter than the lead time.
pub(super) fn new_nodes(
    spec: &Spec,
    output: &ModelOutput,
    present: &[u64],
    lead: Lead,
) -> Option<Vec<Distribution>> {
    let levels = spec.levels.len();
    if wanted(spec, lead) == Wanted::Headroom {
        return Some(
            output.headroom.chunks(levels).map(|row| distribution(&spec.levels, row)).collect(),
        );
    }
    let seconds = seconds(lead)?;
    let ticks =
        usize::try_from((seconds + spec.tick_seconds - 1) / spec.tick_seconds.max(1)).ok()?;
    if ticks > spec.horizon {
        return None;
    }
    let rows = rows(spec, output).zip(present);
    let bucket = |(row, present): (&[f32], &u64)| {
        // The maximum of the quantiles is a lower bound of the quantile of the maximum.
        let most =
            |level: usize| (0..ticks).map(|tick| row[tick * levels + level]).fold(0.0, f32::max);
        let rise: Vec<f32> =
            (0..levels).map(|level| (most(level) - *present as f32).max(0.0)).collect();
        distribution(&spec.levels, &rise)
    };
    Some(rows.map(bucket).collect())
}

/// Returns the outputs that [`new_nodes`] reads.
pub(super) fn wanted(spec: &Spec, lead: Lead) -> Wanted {
    let trained = seconds(lead).zip(spec.lead_seconds);
    let trained = trained.is_some_and(|(lead, [least, most])| (least..=most).contains(&lead));
    // The golden output has all outputs of the model.
    if trained && !spec.golden.headroom.is_empty() { Wanted::Headroom } else { Wanted::All }
}

/// Returns the lead time in seconds, rounded up to whole ticks.
fn seconds(lead: Lead) -> Option<i64> {
    i64::try_from(lead.ticks()).ok()?.checked_mul(lead.tick_seconds)
}

/// Returns demand `ticks` ticks of the controller ahead, by bucket of the output: the forecast of
/// the model's tick that contains that moment. Returns `None` if the moment lies beyond the
/// horizon.
pub(super) fn ahead(
    spec: &Spec,
    output: &ModelOutput,
    ticks: usize,
    tick_seconds: i64,
) -> Option<Vec<Ahead>> {
    let tick = model_tick(spec, ticks, tick_seconds)?;
    let bucket = |row: &[f32]| {
        let quantiles = quantiles(spec, row, tick);
        Ahead {
            mean: median(&spec.levels, quantiles),
            demand: distribution(&spec.levels, quantiles),
        }
    };
    Some(rows(spec, output).map(bucket).collect())
}

/// Returns the medians of demand 1, 2, ... ticks of the controller ahead, by bucket of the output,
/// up to the horizon of the model and at most `AHEAD_TICKS`.
pub(super) fn medians(spec: &Spec, output: &ModelOutput, tick_seconds: i64) -> Vec<Vec<f64>> {
    let places: Vec<usize> =
        (1..=AHEAD_TICKS).map_while(|ticks| model_tick(spec, ticks, tick_seconds)).collect();
    let bucket = |row: &[f32]| {
        let medians: Vec<f64> = (0..spec.horizon)
            .map(|tick| median(&spec.levels, quantiles(spec, row, tick)))
            .collect();
        places.iter().map(|tick| medians[*tick]).collect()
    };
    rows(spec, output).map(bucket).collect()
}

/// Returns the model's tick, counted from 0, that contains the moment `ticks` ticks of the
/// controller ahead.
fn model_tick(spec: &Spec, ticks: usize, tick_seconds: i64) -> Option<usize> {
    let seconds = i64::try_from(ticks).ok()?.checked_mul(tick_seconds)?;
    let tick =
        usize::try_from((seconds + spec.tick_seconds - 1) / spec.tick_seconds.max(1)).ok()?;
    tick.checked_sub(1).filter(|tick| *tick < spec.horizon)
}

/// Returns the quantiles of demand of each bucket, `[horizon, levels]`.
fn rows<'a>(spec: &Spec, output: &'a ModelOutput) -> impl Iterator<Item = &'a [f32]> {
    output.quantiles.chunks(spec.horizon * spec.levels.len())
}

/// Returns the quantiles of one tick of the model, by level.
fn quantiles<'a>(spec: &Spec, row: &'a [f32], tick: usize) -> &'a [f32] {
    &row[tick * spec.levels.len()..(tick + 1) * spec.levels.len()]
}

/// Returns the median in nodes, by linear interpolation between the levels.
///
/// The median replaces the mean, although the mean minimises the squared error. The reason is that
/// the model forecasts the maximum of demand within a tick, whose mean lies above demand: on
/// Philly, the squared error of the mean is a third larger.
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

/// Returns the distribution of whole nodes that the quantiles imply.
///
/// The quantiles are real numbers, interpolated linearly between the levels. A count of nodes
/// suffices up to the level at which the quantile exceeds the count by half a node. Nothing is
/// known above the last level, so the count at the last level suffices for certain.
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
    fn the_median_is_interpolated_between_levels() {
        let near = |levels: &[f64], quantiles: &[f32], expected: f64| {
            assert!((median(levels, quantiles) - expected).abs() < 1e-6, "{levels:?}");
        };
        near(&[0.1, 0.5, 0.9], &[0.0, 2.0, 9.0], 2.0);
        near(&[0.4, 0.8], &[1.0, 5.0], 2.0);
        near(&[0.6, 0.8], &[1.0, 5.0], 1.0);
        near(&[0.1, 0.2], &[-3.0, 4.0], 4.0);
    }

    #[test]
    fn a_count_suffices_while_the_quantile_exceeds_it_by_less_than_half_a_node() {
        check(&[0.0, 0.0, 0.2], &[(0, 1.0)]);
        check(&[0.0, 1.0, 1.0], &[(0, 0.7), (1, 1.0)]);
        check(&[0.0, 0.0, 3.0], &[(0, 0.915), (1, 0.945), (2, 0.975), (3, 1.0)]);
        check(&[2.0, 2.0, 2.0], &[(1, 0.0), (2, 1.0)]);
        check(&[1e9, 1e9, 1e9], &[(19_999, 0.0), (20_000, 1.0)]);
    }
}
