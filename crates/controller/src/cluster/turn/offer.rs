//! The buckets on offer to a policy.

use std::sync::Arc;

use embedder::{CatalogError, MicroDollars};

use super::PolicyController;
use crate::catalog::offers;
use crate::cluster::settings::PolicySettings;
use crate::cluster::standing::Stands;
use crate::cluster::turn_input::TurnContext;
use crate::outcome::{Cause, Faults, KeptPlaceholders};

impl PolicyController {
    /// Rebuilds the buckets on offer, and replaces them if they changed.
    pub(super) fn refresh_offers(
        &mut self,
        settings: &PolicySettings,
        context: &TurnContext<'_>,
    ) -> Faults {
        let mut faults = Faults::default();
        let TurnContext { config, shared, groups, selected_labels, taken, .. } = context;
        let world = shared.world();
        let nodes = world.index.nodes();
        let comparison = config.comparison(selected_labels, context.named_parts);
        let sizes = self.sizes.get_or_insert_default();
        let Some(mut all) = groups.with(&world, &comparison, sizes) else {
            let why = groups.failing.clone().unwrap_or_else(|| "no groups read yet".into());
            faults.add(Cause::CatalogFailed, why);
            return faults;
        };
        let allowed = &config.allowed;
        all.retain(|group| settings.buckets.select(group) && allowed.allow(group));
        let (theirs, ours): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|group| taken.contains(&group.name));
        if !theirs.is_empty() {
            let names: Vec<&str> = theirs.iter().map(|group| group.name.as_str()).collect();
            let message = format!("an older policy uses the groups {}", names.join(", "));
            faults.add(Cause::OverlappingBuckets, message);
        }
        let daemons = world.index.daemons();
        match offers(&ours, nodes, &daemons, &comparison, sizes) {
            Ok(made) => {
                if self.offers.as_deref() != Some(&made) {
                    self.offers = Some(Arc::new(made));
                }
            }
            Err(CatalogError::Empty) => {
                self.offers = None;
                if theirs.is_empty() {
                    let message = "the policy's buckets select no group of nodes";
                    faults.add(Cause::NoBuckets, message);
                }
            }
            Err(error) => faults.add(Cause::Groups, error.to_string()),
        }
        faults
    }
}

/// The standing placeholders of an invalid policy: their groups, which younger policies must not
/// use, and their cost, which counts towards the operator's limits.
pub(super) fn kept(stands: &Stands, context: &TurnContext<'_>) -> KeptPlaceholders {
    let comparison = context.config.comparison(context.selected_labels, context.named_parts);
    let offers = context.groups.offers(&context.shared.world(), &comparison).ok();
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
