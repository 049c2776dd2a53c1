//! The maximum of the last samples.

use std::collections::VecDeque;

/// The maximum of the values of the last samples, by their numbers.
///
/// Only values that may be the maximum now or later are kept, so values from a ladder of 400 take
/// at most 400 entries.
#[derive(Clone, Debug)]
pub struct SlidingMax {
    /// The number of samples that count.
    length: i64,
    /// Numbers and values, oldest first, in descending value.
    highs: VecDeque<(i64, u64)>,
}

impl SlidingMax {
    /// A maximum over the last `length` samples, at least 1.
    pub fn new(length: i64) -> Self {
        Self { length: length.max(1), highs: VecDeque::new() }
    }

    /// Adds the value of a sample, whose number is not below those before, and returns the maximum.
    pub fn add(&mut self, number: i64, value: u64) -> u64 {
        while self.highs.back().is_some_and(|(_, before)| *before <= value) {
            self.highs.pop_back();
        }
        self.highs.push_back((number, value));
        let first = number.saturating_sub(self.length);
        while self.highs.front().is_some_and(|(at, _)| *at <= first) {
            self.highs.pop_front();
        }
        self.max()
    }

    /// The maximum, or 0 if there is no sample.
    pub fn max(&self) -> u64 {
        self.highs.front().map_or(0, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_counts_for_the_length_of_the_window() {
        let mut max = SlidingMax::new(3);
        let values = [5, 2, 4, 1, 1, 1, 1].into_iter().zip(0..);
        let seen: Vec<u64> = values.map(|(value, number)| max.add(number, value)).collect();
        assert_eq!(seen, [5, 5, 5, 4, 4, 1, 1]);
    }

    proptest! {
        #[test]
        fn the_maximum_is_that_of_all_values_in_the_window(
            steps in prop::collection::vec((0..4_i64, 0..9_u64), 1..60),
            length in 1..8_i64,
        ) {
            let (mut max, mut all, mut number) = (SlidingMax::new(length), Vec::new(), 0);
            for (step, value) in steps {
                number += step;
                all.push((number, value));
                let within = all.iter().filter(|(at, _)| *at > number - length);
                prop_assert_eq!(Some(max.add(number, value)), within.map(|(_, value)| *value).max());
                prop_assert!(max.highs.len() <= 9);
            }
        }
    }
}
