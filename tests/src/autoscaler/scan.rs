//! The loop of scans: observe, terminate overdue instances, place, scale up and down, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_config::SdkConfig;
use kube::Client;
use tokio::time::{Instant, sleep_until};

use super::fit::Ask;
use super::observe::{Cluster, Group, Groups};
use super::place::{Placed, place};
use super::scale_down::{self, Unneeded};
use super::status::{self, GroupStatus};
use super::{AutoscalerSettings, Counters, Removal, ScaleUp, buffers, events, lock, scale_up};

/// The backoff of a group after a failure: the group does not grow until it ends.
#[derive(Debug)]
struct Backoff {
    until: Instant,
    pause: Duration,
    reason: String,
}

/// The state that is kept between scans.
pub(super) struct Scanner {
    client: Client,
    groups: Groups,
    settings: AutoscalerSettings,
    counters: Arc<Mutex<Counters>>,
    /// The time since which an instance has no node, by instance ID.
    unregistered: BTreeMap<String, Instant>,
    backoffs: BTreeMap<String, Backoff>,
    last_scale_up: BTreeMap<String, Instant>,
    unneeded: Unneeded,
    /// The last reason that was reported for each pod for which no node is launched.
    explained: BTreeMap<String, String>,
}

impl Scanner {
    pub(super) fn new(
        client: Client,
        aws: &SdkConfig,
        settings: AutoscalerSettings,
        counters: Arc<Mutex<Counters>>,
    ) -> Self {
        let groups = Groups {
            autoscaling: aws_sdk_autoscaling::Client::new(aws),
            ec2: aws_sdk_ec2::Client::new(aws),
            types: BTreeMap::new(),
            seen_ready: BTreeSet::new(),
            templates: BTreeMap::new(),
        };
        Self {
            client,
            groups,
            settings,
            counters,
            unregistered: BTreeMap::new(),
            backoffs: BTreeMap::new(),
            last_scale_up: BTreeMap::new(),
            unneeded: Unneeded::new(),
            explained: BTreeMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let next = Instant::now() + self.settings.scan_interval;
            match self.scan().await {
                Ok(()) => lock(&self.counters).scans += 1,
                Err(error) => lock(&self.counters).errors.push(format!("{error:#}")),
            }
            sleep_until(next).await;
        }
    }

    async fn scan(&mut self) -> Result<()> {
        let now = Instant::now();
        let cluster = Cluster::observe(&self.client).await?;
        let mut groups = self.groups.observe(&cluster).await?;
        if self.give_up(&groups, now).await? {
            groups = self.groups.observe(&cluster).await?;
        }
        self.end_backoffs(&groups, now);
        let buffers = self.settings.capacity_buffers;
        let virtual_pods =
            if buffers { buffers::virtual_pods(&self.client).await? } else { Vec::new() };
        let mut placed = place(&cluster, &groups, virtual_pods, self.settings.expendable_cutoff)?;
        let grown = self.scale_up(&groups, &mut placed, now).await;
        scale_down::update(&mut self.unneeded, &cluster, &placed, now);
        self.scale_down(&cluster, &groups, now).await?;
        self.report(&groups, &grown).await
    }

    /// Terminates instances that did not become nodes in time, and makes their groups back off.
    /// Returns whether an instance was terminated.
    async fn give_up(&mut self, groups: &[Group], now: Instant) -> Result<bool> {
        let mut given_up = false;
        let waiting: BTreeSet<&String> =
            groups.iter().flat_map(|group| &group.unregistered).collect();
        self.unregistered.retain(|instance, _| waiting.contains(instance));
        for group in groups {
            let mut size = group.target;
            for instance in &group.unregistered {
                let since = *self.unregistered.entry(instance.clone()).or_insert(now);
                if now < since + self.settings.max_node_provision_time {
                    continue;
                }
                self.back_off(&group.name, "node provisioning has timed out", now);
                if size > group.min {
                    scale_down::terminate(&self.groups.autoscaling, instance).await?;
                    size -= 1;
                    given_up = true;
                    let (group, instance) = (group.name.clone(), instance.clone());
                    lock(&self.counters).given_up.push(Removal { group, instance, at: now });
                }
            }
        }
        Ok(given_up)
    }

    fn back_off(&mut self, group: &str, reason: &str, now: Instant) {
        let running = self.backoffs.get(group);
        if running.is_some_and(|backoff| now < backoff.until) {
            return;
        }
        let pause = running.map_or(self.settings.backoff, |backoff| backoff.pause * 2);
        let pause = pause.min(self.settings.backoff_max);
        let backoff = Backoff { until: now + pause, pause, reason: reason.to_owned() };
        self.backoffs.insert(group.to_owned(), backoff);
    }

    /// Forgets the backoffs of groups that have grown after their backoff and have all their nodes.
    fn end_backoffs(&mut self, groups: &[Group], now: Instant) {
        self.backoffs.retain(|name, backoff| {
            let group = groups.iter().find(|group| group.name == *name);
            let grew = self.last_scale_up.get(name).is_some_and(|at| *at > backoff.until);
            let whole = group.is_none_or(|group| grew && group.upcoming() == 0);
            now < backoff.until || !whole
        });
    }

    /// Grows the chosen groups; returns their names.
    async fn scale_up(
        &mut self,
        groups: &[Group],
        placed: &mut Placed,
        now: Instant,
    ) -> BTreeSet<String> {
        let backs_off = |group: &&Group| {
            self.backoffs.get(&group.name).is_some_and(|backoff| now < backoff.until)
        };
        let able: Vec<&Group> = groups.iter().filter(|group| !backs_off(group)).collect();
        let nodes_max = self
            .settings
            .max_nodes_total
            .map_or(usize::MAX, |max| max.saturating_sub(placed.nodes_total));
        let mut grown = BTreeSet::new();
        let mut sizes: BTreeMap<String, usize> =
            groups.iter().map(|group| (group.name.clone(), group.target)).collect();
        let (growths, left) = scale_up::plan(&able, std::mem::take(&mut placed.left), nodes_max);
        for growth in growths {
            let size = sizes.entry(growth.group.clone()).or_default();
            let wanted = *size + growth.by;
            if let Err(error) = self.resize(&growth.group, wanted).await {
                let reason = format!("{error:#}");
                self.back_off(&growth.group, &reason, now);
                lock(&self.counters).errors.push(reason);
                continue;
            }
            *size = wanted;
            self.last_scale_up.insert(growth.group.clone(), now);
            grown.insert(growth.group.clone());
            let scale_up = ScaleUp { group: growth.group, by: growth.by, at: now };
            lock(&self.counters).scale_ups.push(scale_up);
        }
        let planned: usize =
            sizes.values().sum::<usize>() - groups.iter().map(|group| group.target).sum::<usize>();
        let is_full = nodes_max <= planned;
        if let Err(error) = self.explain(&left, groups, &sizes, is_full, now).await {
            lock(&self.counters).errors.push(format!("{error:#}"));
        }
        grown
    }

    /// Reports why no node is launched for these pods, once for each pod and reason.
    async fn explain(
        &mut self,
        left: &[Ask],
        groups: &[Group],
        sizes: &BTreeMap<String, usize>,
        is_full: bool,
        now: Instant,
    ) -> Result<()> {
        let names: BTreeSet<&String> = left.iter().map(|ask| &ask.name).collect();
        self.explained.retain(|name, _| names.contains(name));
        if is_full && !left.is_empty() {
            let status = ("ConfigMap", "kube-system", "cluster-autoscaler-status");
            let message = "Max total nodes in cluster reached";
            return events::write(
                &self.client,
                status,
                ("Warning", "MaxNodesTotalReached", message),
            )
            .await;
        }
        for ask in left {
            let backs_off = |group: &Group| {
                self.backoffs.get(&group.name).is_some_and(|backoff| now < backoff.until)
            };
            let size = |group: &Group| sizes.get(&group.name).copied().unwrap_or_default();
            let message = events::why(ask, groups, backs_off, size);
            // Virtual pods of buffers have no namespace.
            let Some((namespace, name)) = ask.name.split_once('/') else { continue };
            if self.explained.get(&ask.name) != Some(&message) {
                let pod = ("Pod", namespace, name);
                events::write(&self.client, pod, ("Normal", "NotTriggerScaleUp", &message)).await?;
                self.explained.insert(ask.name.clone(), message);
            }
        }
        Ok(())
    }

    async fn resize(&self, group: &str, size: usize) -> Result<()> {
        let request = self.groups.autoscaling.set_desired_capacity().auto_scaling_group_name(group);
        let answer =
            request.desired_capacity(i32::try_from(size)?).honor_cooldown(false).send().await;
        answer.with_context(|| format!("failed to set the size of {group}"))?;
        Ok(())
    }

    async fn scale_down(
        &mut self,
        cluster: &Cluster,
        groups: &[Group],
        now: Instant,
    ) -> Result<()> {
        let candidates = scale_down::candidates(
            &self.unneeded,
            cluster,
            groups,
            &self.last_scale_up,
            &self.settings,
            now,
        );
        for candidate in candidates {
            let cutoff = self.settings.expendable_cutoff;
            self.unneeded.remove(&candidate.node);
            if scale_down::remove(&self.client, &self.groups.autoscaling, &candidate, cutoff)
                .await?
            {
                let removal =
                    Removal { group: candidate.group, instance: candidate.instance, at: now };
                lock(&self.counters).removed.push(removal);
            }
        }
        Ok(())
    }

    async fn report(&self, groups: &[Group], grown: &BTreeSet<String>) -> Result<()> {
        let now = Instant::now();
        let status = |group: &Group| GroupStatus {
            name: group.name.clone(),
            min: group.min,
            max: group.max,
            target: group.target,
            registered: group.registered,
            ready: group.ready.len(),
            unregistered: group.unregistered.len(),
            backoff: self
                .backoffs
                .get(&group.name)
                .filter(|backoff| now < backoff.until)
                .map(|backoff| backoff.reason.clone()),
            scale_up: (group.upcoming() > 0 || grown.contains(&group.name))
                .then(|| self.last_scale_up.get(&group.name).map_or(now, |began| *began))
                .map(|began| now.saturating_duration_since(began)),
            candidates: group.ready.iter().filter(|id| self.unneeded.contains_key(*id)).count(),
        };
        let statuses: Vec<GroupStatus> = groups.iter().map(status).collect();
        status::write(&self.client, &statuses).await
    }
}
