//! Counts by key, as sorted vectors.

/// Adds the values of neighbours with equal keys, so that each key of a sorted vector remains once.
pub fn sum_by_key<K: PartialEq, V: Copy>(sorted: &mut Vec<(K, V)>, add: impl Fn(V, V) -> V) {
    sorted.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = add(kept.1, next.1);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::sum_by_key;

    #[test]
    fn equal_keys_are_added() {
        let mut counts = vec![("a", 1_u64), ("b", 2), ("b", u64::MAX), ("c", 4)];
        sum_by_key(&mut counts, u64::saturating_add);
        assert_eq!(counts, [("a", 1), ("b", u64::MAX), ("c", 4)]);
    }
}
