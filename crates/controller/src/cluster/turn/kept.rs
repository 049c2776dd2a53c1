//! The placeholders that an invalid policy keeps.

use embedder::MicroDollars;

use crate::cluster::standing::Stands;
use crate::cluster::turn_input::TurnContext;
use crate::outcome::KeptPlaceholders;

/// The standing placeholders of an invalid policy: their groups, which younger policies must not
/// use, and their cost, which counts towards the operator's limits.
pub(super) fn kept(stands: &Stands, context: &TurnContext<'_>) -> KeptPlaceholders {
    let comparison = context.config.comparison(context.known);
    let world = context.shared.world();
    let pricing = context.config.pricing(&world);
    let offers = context.groups.offers(&world, &comparison, &pricing).ok();
    drop(world);
    let mut kept = KeptPlaceholders::default();
    for (name, replicas) in stands.groups() {
        let buckets = offers.iter().flat_map(|offers| {
            offers.catalog.buckets().iter().zip(&offers.groups).flat_map(|(bucket, groups)| {
                let groups = bucket.groups.iter().zip(groups);
                groups.map(|(group, offer)| (bucket.hourly, &group.name, &offer.members))
            })
        });
        match buckets.into_iter().find(|(_, group, _)| *group == name) {
            Some((hourly, _, members)) => {
                kept.groups.extend(members.iter().cloned());
                let cost = kept.hourly.0.saturating_add(hourly.times(replicas).0);
                kept.hourly = MicroDollars(cost);
            }
            None => kept.groups.push(name.into()),
        }
    }
    kept
}
