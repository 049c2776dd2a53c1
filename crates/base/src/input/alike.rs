//! Names that were probably meant, for errors about unknown ones.

/// Returns what to write instead of an unknown name: the known name that it resembles, or all.
pub fn instead_of(name: &str, known: &[&str]) -> String {
    match known.iter().find(|known| is_alike(known, name)) {
        Some(alike) => format!("did you mean {alike}?"),
        None => format!("expected {}", known.join(", ")),
    }
}

/// The known names that an unknown name resembles.
pub fn alike<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    known.filter(|known| is_alike(known, name)).collect()
}

/// Whether two names differ by at most one letter, apart from letter case and separators.
pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    let plain = |name: &str| -> Vec<char> {
        name.to_lowercase().chars().filter(|letter| !"_-".contains(*letter)).collect()
    };
    let (one, other) = (plain(one), plain(other));
    let start = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let ends = one[start..].iter().rev().zip(other[start..].iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    one.len().max(other.len()) <= start + end + 1
}
