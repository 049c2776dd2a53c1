//! The weighted median of the experts' headrooms, and the expert that carries it.

/// Returns the expert that has the largest weight among those whose headroom is the weighted
/// median. Experts without a forecast are left out. Returns `None` if no expert has a forecast.
pub(super) fn carrying(wants: &[Option<u64>], shares: &[f64]) -> Option<usize> {
    let mut present: Vec<Held> = wants
        .iter()
        .zip(shares)
        .enumerate()
        .filter_map(|(at, (want, share))| Some(((*want)?, *share, at)))
        .collect();
    present.sort_unstable_by_key(|&(want, _, at)| (want, at));
    let half = 0.5 * present.iter().map(|(_, share, _)| share).sum::<f64>();
    let median = reaching(&present, half).or(present.last().map(|(want, ..)| *want))?;
    heaviest(&present, median).map(|(.., at)| at)
}

/// A headroom, the share of its expert, and the expert.
type Held = (u64, f64, usize);

/// Returns the headroom at which the sum of the shares, in the order of `held`, reaches `least`.
fn reaching(held: &[Held], least: f64) -> Option<u64> {
    let mut sum = 0.0;
    let passed = held.iter().find(|(_, share, _)| {
        sum += share;
        sum >= least
    });
    passed.map(|(want, ..)| *want)
}

/// Returns the first of the largest shares among the experts with the headroom `median`.
fn heaviest(held: &[Held], median: u64) -> Option<Held> {
    let alike = held.iter().filter(|(want, ..)| *want == median).copied();
    alike.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// The headroom of an expert in nodes, if it is computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want {
    /// The method has not run yet.
    Unknown,
    /// The headroom; `None` where the method has no forecast.
    Known(Option<u64>),
}

impl Want {
    /// Returns the headroom, or `None` if there is none or it is unknown.
    pub(super) fn known(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Known(want) => want,
        }
    }
}

/// An upper bound of the rounding error of a sum of shares.
const ROUNDING: f64 = 1e-9;

/// Returns the expert that [`carrying`] returns with any value of the unknown headrooms, and where
/// some of them do not exist. Returns `None` if the expert depends on them, or if rounding could
/// change it.
///
/// The median is lowest where all unknown headrooms are below the others, and highest where they
/// are above. If both are the same, it is the median in any case, because a headroom that does not
/// exist moves the median less than either. An unknown headroom at the median does not change the
/// carrier if its expert has a smaller share.
pub(super) fn carrying_in_any_case(wants: &[Want], shares: &[f64]) -> Option<usize> {
    let (mut known, mut unknown, mut largest) = (Vec::with_capacity(wants.len()), 0.0, 0.0_f64);
    for (at, (want, share)) in wants.iter().zip(shares).enumerate() {
        match want {
            Want::Known(Some(want)) => known.push((*want, *share, at)),
            Want::Known(None) => {}
            Want::Unknown => (unknown, largest) = (unknown + share, largest.max(*share)),
        }
    }
    known.sort_unstable_by_key(|&(want, _, at)| (want, at));
    let half = 0.5 * (unknown + known.iter().map(|(_, share, _)| share).sum::<f64>());
    if unknown + ROUNDING > half {
        return None;
    }
    let median = reaching(&known, half + ROUNDING)?;
    if reaching(&known, half - unknown - ROUNDING)? != median {
        return None;
    }
    let (_, share, expert) = heaviest(&known, median)?;
    (share > largest).then_some(expert)
}

#[cfg(test)]
mod tests {
    use proptest::bool::weighted;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(wants: &[u64], shares: &[f64], expected: usize) {
        let wants: Vec<Option<u64>> = wants.iter().copied().map(Some).collect();
        assert_eq!(carrying(&wants, shares), Some(expected));
    }

    #[test]
    fn the_carrier_has_the_largest_weight_among_the_experts_at_the_median() {
        check(&[0, 2, 9], &[0.4, 0.3, 0.3], 1);
        check(&[0, 2, 9], &[0.6, 0.2, 0.2], 0);
        check(&[3, 0, 3, 3], &[0.1, 0.2, 0.4, 0.3], 2);
        assert_eq!(carrying(&[None, Some(1)], &[0.9, 0.1]), Some(1));
    }

    proptest! {
        // Few cases have an unknown headroom at the median with a share that matters.
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        /// An expert that is found without the unknown headrooms carries with them, too. With all
        /// headrooms known, it is found unless a sum of shares is half of all.
        #[test]
        fn an_expert_carries_with_any_unknown_headrooms(
            experts in vec((0..3_u64, 0..9_u32, weighted(0.9), weighted(0.6)), 1..8),
        ) {
            let total: u32 = experts.iter().map(|(_, share, ..)| share).sum::<u32>().max(1);
            let shares: Vec<f64> =
                experts.iter().map(|(_, share, ..)| f64::from(*share) / f64::from(total)).collect();
            let wants: Vec<Option<u64>> =
                experts.iter().map(|&(want, _, present, _)| present.then_some(want)).collect();
            let all: Vec<Want> = wants.iter().copied().map(Want::Known).collect();
            let is_known = experts.iter().map(|(.., is_known)| *is_known);
            let some: Vec<Want> = all.iter().zip(is_known)
                .map(|(want, is_known)| if is_known { *want } else { Want::Unknown })
                .collect();
            let carrier = carrying(&wants, &shares);
            for wants in [&some, &all] {
                if let Some(expert) = carrying_in_any_case(wants, &shares) {
                    prop_assert_eq!(carrier, Some(expert));
                }
            }
            let present = || experts.iter().filter(|(_, share, present, _)| *present && *share > 0);
            let below = |most: u64| -> u32 {
                present().filter(|(want, ..)| *want <= most).map(|(_, share, ..)| share).sum()
            };
            if present().count() > 0 && (0..3).all(|most| 2 * below(most) != below(3)) {
                prop_assert_eq!(carrying_in_any_case(&all, &shares), carrier);
            }
        }
    }

    #[track_caller]
    fn check_known(wants: &[Want], shares: &[f64], expected: Option<usize>) {
        assert_eq!(carrying_in_any_case(wants, shares), expected);
    }

    #[test]
    fn unknown_headrooms_matter_where_they_can_move_the_median_or_carry() {
        let [zero, one, absent] = [Some(0), Some(1), None].map(Want::Known);
        let unknown = Want::Unknown;
        check_known(&[one, one, unknown], &[0.4, 0.3, 0.3], Some(0));
        check_known(&[one, one, unknown], &[0.3, 0.3, 0.4], None);
        check_known(&[one, one, unknown], &[0.4, 0.2, 0.4], None);
        check_known(&[zero, one, unknown], &[0.4, 0.4, 0.2], None);
        check_known(&[zero, one, unknown], &[0.7, 0.2, 0.1], Some(0));
        check_known(&[zero, one, absent, unknown], &[0.35, 0.1, 0.5, 0.05], Some(0));
        check_known(&[one, unknown], &[0.5, 0.5], None);
        check_known(&[absent, absent], &[0.5, 0.5], None);
    }

    #[test]
    fn a_median_at_exactly_half_of_the_shares_depends_on_rounding() {
        check_known(&[Some(0), Some(1)].map(Want::Known), &[0.5, 0.5], None);
        check(&[0, 1], &[0.5, 0.5], 0);
    }
}
