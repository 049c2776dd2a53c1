//! The buckets on offer to a policy.

use std::sync::Arc;

use embedder::CatalogError;

use super::PolicyController;
use crate::catalog::{Pricing, offers};
use crate::cluster::settings::PolicySettings;
use crate::cluster::turn_input::TurnContext;
use crate::outcome::{Cause, Faults};

impl PolicyController {
    /// Rebuilds the buckets on offer, and replaces them if they changed.
    pub(super) fn refresh_offers(
        &mut self,
        settings: &PolicySettings,
        context: &TurnContext<'_>,
    ) -> Faults {
        let mut faults = Faults::default();
        let TurnContext { config, shared, groups, known, taken, .. } = context;
        let world = shared.world();
        let nodes = world.index.nodes();
        let comparison = config.comparison(known);
        let sizes = self.sizes.get_or_insert_default();
        let Some(all) = groups.with(&world, &comparison, sizes) else {
            let why = groups.failing.clone().unwrap_or_else(|| "no groups read yet".into());
            faults.add(Cause::CatalogFailed, why);
            return faults;
        };
        let allowed = &config.allowed;
        let all = all.into_iter().filter_map(|group| settings.buckets.narrow(group, allowed));
        let all = all.filter(|group| settings.buckets.select(group) && allowed.allow(group));
        let (theirs, ours): (Vec<_>, Vec<_>) = all.partition(|group| taken.contains(&group.name));
        if !theirs.is_empty() {
            let names: Vec<&str> = theirs.iter().map(|group| group.name.as_str()).collect();
            let message = format!("an older policy uses the groups {}", names.join(", "));
            faults.add(Cause::OverlappingBuckets, message);
        }
        let daemons = world.index.daemons();
        let last = self.offers.as_ref().map(|offers| offers.by_name());
        let pricing = Pricing { last: last.as_ref(), ..config.pricing(&world) };
        match offers(&ours, nodes, &daemons, (&comparison, &pricing), sizes) {
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
