//! Base-instance selection (the paper's section 4.4 and Figure 7).

/// Returns the index of the first instance type, in an ascending series, that lowers the cost.
///
/// The smallest remaining type is dropped while the total cost without it is no higher than the
/// cost with it. `total_cost(first)` is the cost of the workload on the types `first..types`. At
/// least one type remains.
pub fn base(types: usize, mut total_cost: impl FnMut(usize) -> u64) -> usize {
    let mut first = 0;
    if types < 2 {
        return first;
    }
    let mut cost = total_cost(first);
    while first + 1 < types {
        let without = total_cost(first + 1);
        if without > cost {
            break;
        }
        cost = without;
        first += 1;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::base;

    fn check(costs: &[u64], first: usize) {
        assert_eq!(base(costs.len(), |first| costs[first]), first, "{costs:?}");
    }

    #[test]
    fn the_smallest_type_is_dropped_while_the_cost_does_not_rise() {
        check(&[], 0);
        check(&[5], 0);
        check(&[5, 6], 0);
        check(&[5, 5], 1);
        check(&[9, 8, 8, 10, 1], 2);
        check(&[9, 8, 7], 2);
    }
}
