//! The tiers of a log.

use std::collections::BTreeMap;

use super::detect::Format;

/// The most tiers that are listed. The jobs of all others are one tier.
const TIERS_MAX: usize = 7;

/// The tier of a job. Borg's tiers are ranges of priorities; elsewhere each priority is a tier.
fn tier(format: Format, priority: i32) -> String {
    if format != Format::Borg {
        return format!("priority {priority}");
    }
    match priority {
        ..=99 => "free",
        100..=115 => "best-effort batch",
        116..=119 => "mid",
        120..=359 => "production",
        360.. => "monitoring",
    }
    .into()
}

/// Groups values by the tier of their priorities, the largest tier first.
pub(super) fn by_tier<T>(
    format: Format,
    values: impl Iterator<Item = (i32, T)>,
) -> Vec<(String, Vec<T>)> {
    let mut by_tier: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for (priority, value) in values {
        by_tier.entry(tier(format, priority)).or_default().push(value);
    }
    let mut all: Vec<(String, Vec<T>)> = by_tier.into_iter().collect();
    all.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
    if all.len() > TIERS_MAX {
        let rest = all.split_off(TIERS_MAX - 1).into_iter().flat_map(|(_, values)| values);
        all.push(("other priorities".into(), rest.collect()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_of_borg_are_ranges_of_priorities() {
        let check = |priority, expected: &str| assert_eq!(tier(Format::Borg, priority), expected);
        check(0, "free");
        check(99, "free");
        check(100, "best-effort batch");
        check(116, "mid");
        check(120, "production");
        check(360, "monitoring");
        assert_eq!(tier(Format::Table, 120), "priority 120");
    }
}
