//! Kubernetes quantities as whole thousandths, which is the precision of requests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts in thousandths, by resource name.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// Converts all quantities of a map.
pub(crate) fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Result<Amounts> {
    let parse =
        |(name, quantity): (&String, &Quantity)| Ok((name.clone(), thousandths(&quantity.0)?));
    quantities.into_iter().flatten().map(parse).collect()
}

/// Adds `more` to `to`, resource by resource.
pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

/// Raises each amount of `to` to that of `other` if the latter is larger.
pub(crate) fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let have = to.entry(name.clone()).or_default();
        *have = (*have).max(*amount);
    }
}

/// Parses a quantity into thousandths. Finer fractions are rounded up, as in the API server.
///
/// # Errors
/// The text is not a quantity, or its suffix is not one that the tests use.
pub fn thousandths(quantity: &str) -> Result<i128> {
    let end = quantity
        .find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c))
        .unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 =
        format!("{whole}{part}").parse().with_context(|| format!("not a quantity: {quantity}"))?;
    let below = 10_i128.pow(u32::try_from(part.len())?);
    let (times, over) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        _ => bail!("the suffix is not supported: {quantity}"),
    };
    let (value, divisor) = (digits * times, below * over);
    Ok((value + divisor - 1).div_euclid(divisor))
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn quantities_are_parsed_exactly() {
        let check = |text: &str, want: i128| assert_eq!(thousandths(text).unwrap(), want, "{text}");
        check("1", 1_000);
        check("250m", 250);
        check("1.5", 1_500);
        check("1.5Gi", 1_536_000 << 20);
        check("0.1m", 1);
        check("64Gi", 64_000 << 30);
        thousandths("much").unwrap_err();
        thousandths("1Foo").unwrap_err();
    }
}
