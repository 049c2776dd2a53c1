//! The boundaries b\[k\] of all histograms of usage, which are also the candidate limits.
//!
//! A bin holds the values above the boundary before it, up to its own, so that a usage that equals
//! a boundary is exact. The paper closes bins at the other end, with no effect on its statistics.

/// The number of boundaries: about 400 in the paper.
const RUNGS: usize = 400;

/// The boundaries, in ascending order from 0: in steps of 1 up to 50, then of at most 4 %.
///
/// A unit is a thousandth of a core of CPU, and [`MEMORY_UNIT_BYTES`] of memory.
pub const LADDER: [u64; RUNGS] = ladder();

/// The unit of memory in [`LADDER`], in bytes: 1 MiB.
pub const MEMORY_UNIT_BYTES: u64 = 1 << 20;

const fn ladder() -> [u64; RUNGS] {
    let mut rungs = [0; RUNGS];
    let mut at = 1;
    while at < RUNGS {
        let below = rungs[at - 1];
        let step = below / 25;
        rungs[at] = below + if step > 1 { step } else { 1 };
        at += 1;
    }
    rungs
}

/// The index of the bin of a value: that of the smallest boundary that is not below it. A value
/// above the last boundary counts as the last.
pub fn rung(value: u64) -> usize {
    LADDER.partition_point(|boundary| *boundary < value).min(RUNGS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_rise_by_one_and_then_by_at_most_four_percent() {
        assert_eq!(
            LADDER[..52],
            std::array::from_fn::<u64, 52, _>(|at| at as u64 + u64::from(at == 51))
        );
        assert!(
            LADDER.is_sorted_by(|low, high| low < high && (*low < 50 || high * 25 <= low * 26))
        );
        // 20,000 cores, and 20 TiB of memory: more than any machine has.
        assert!(LADDER[RUNGS - 1] > 20_000_000, "{}", LADDER[RUNGS - 1]);
    }

    #[test]
    fn a_value_belongs_to_the_smallest_boundary_not_below_it() {
        let check = |value: u64, boundary: u64| assert_eq!(LADDER[rung(value)], boundary);
        check(0, 0);
        check(1, 1);
        check(50, 50);
        check(51, 52);
        check(u64::MAX, LADDER[RUNGS - 1]);
    }
}
