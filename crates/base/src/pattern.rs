//! Patterns of names.

/// Whether a name matches a pattern, in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The leftmost match leaves the most for the parts that follow.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        check("batch", "batch", true);
        check("batch", "batch-a", false);
        check("batch-*", "batch-a", true);
        check("batch-*", "web-a", false);
        check("*-gpu", "batch-gpu", true);
        check("*-gpu", "batch-gpu-a", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("a*a", "a", false);
        check("*", "", true);
    }
}
