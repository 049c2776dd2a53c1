//! The lower convex hull of waiting against dollars: what each further hour less costs.

/// Of points (hours of waiting, dollars), returns the position of the one after `at` on the lower
/// convex hull, and the dollars that it costs for each hour less. It has fewer hours than `at`.
///
/// Of several with the same price, it is the one with the fewest hours. `None` at the end.
pub fn next_on_hull(
    points: impl Iterator<Item = (f64, f64)>,
    (hours, dollars): (f64, f64),
) -> Option<(f64, usize)> {
    let further = points.enumerate().filter_map(|(at, (less, more))| {
        let price = (more - dollars) / (hours - less);
        (less < hours && price.is_finite()).then_some((price, less, at))
    });
    let next = further
        .min_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.total_cmp(&other.1)));
    next.map(|(price, _, at)| (price, at))
}
