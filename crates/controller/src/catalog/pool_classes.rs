//! The size classes that a pool of Karpenter without a list of instance types could launch, and
//! which of them pods need (docs/adr/0022).

use std::collections::{BTreeMap, BTreeSet};

use embedder::Resources;
use instances::{SizeClass, class_for, size_classes};

use super::karpenter::{Launched, admitted, choices, estimated, fixed, is_flexible};
use crate::observe::{Choice, Daemon, NodePool, POOL_LABEL, PodClass};

/// The most size classes of a pool: eight, because each is a bucket with a forecast of its own.
const CLASSES_MAX: usize = 8;

/// The size classes that a pool could launch.
#[derive(Clone, Debug)]
pub struct PoolClasses {
    pool: NodePool,
    classes: BTreeMap<&'static str, PoolClass>,
}

/// A size class of a pool.
#[derive(Clone, Debug)]
struct PoolClass {
    /// The types of the class that the pool admits.
    class: SizeClass,
    /// The labels of a node, and those whose value is not fixed.
    labels: BTreeMap<String, String>,
    choices: BTreeMap<String, Choice>,
    /// What a node has for pods.
    has: Resources,
}

impl PoolClasses {
    /// The size classes of a pool. `None` if the pool lists its instance types.
    pub fn of(pool: &NodePool) -> Option<Self> {
        if !is_flexible(pool) {
            return None;
        }
        let classes = size_classes()
            .iter()
            .filter_map(|(name, class)| Some((name.as_str(), PoolClass::of(pool, class)?)));
        Some(Self { pool: pool.clone(), classes: classes.collect() })
    }

    /// Whether these are the classes of this pool.
    pub fn are_of(&self, pool: &NodePool) -> bool {
        self.pool == *pool
    }

    /// The name of the size class for pods of a class, beside `daemons`. A class that is `known`
    /// precedes. `None` if the pool does not admit the pods, if no size fits, or if `known` has
    /// [`CLASSES_MAX`] of the pool's classes.
    pub fn class_for(
        &self,
        pods: &PodClass,
        daemons: &[Daemon],
        known: &BTreeSet<String>,
    ) -> Option<&str> {
        let Self { pool, classes } = self;
        if known.iter().filter(|name| classes.contains_key(name.as_str())).count() >= CLASSES_MAX {
            return None;
        }
        let admits =
            |one: &&PoolClass| pods.constraints.admit_any(&one.labels, &one.choices, &pool.taints);
        let chosen = |of_family: bool| {
            let those = classes.values().filter(|one| one.class.of_family == of_family);
            let fitting = those.filter(|one| one.has.fits(pods.requests));
            let sized = fitting.filter(admits).map(|one| (&one.class, one.beside(daemons, pool)));
            class_for(sized, pods.requests, &pods.accelerator_kind, |name| known.contains(name))
        };
        // Pods that select types by what the types of a size do not share need one family.
        Some(&chosen(false).or_else(|| chosen(true))?.name)
    }
}

impl PoolClass {
    fn of(pool: &NodePool, class: &SizeClass) -> Option<Self> {
        let class = admitted(pool, class)?;
        let launched = Launched::of_class(pool, &class);
        let has = class.types.iter().map(|known| estimated(known)).reduce(Resources::floor)?;
        let labels = launched.labels.into_iter().chain(pool.labels.clone()).chain(fixed(pool));
        let own = (POOL_LABEL.to_owned(), pool.name.clone());
        let labels = labels.chain([own]).collect();
        let choices = choices(pool, &launched.choices, &labels);
        Some(Self { class, labels, choices, has })
    }

    /// What a node has for pods beside the DaemonSets that run on it. One that does not fit on an
    /// empty node runs on none.
    fn beside(&self, daemons: &[Daemon], pool: &NodePool) -> Resources {
        let admitted = daemons.iter().filter(|daemon| {
            daemon.constraints.admit_any(&self.labels, &self.choices, &pool.taints)
        });
        let requests = admitted.map(|daemon| Resources { accelerators: 0, ..daemon.requests });
        let fitting = requests.filter(|requests| self.has.fits(*requests));
        fitting.fold(self.has, Resources::less)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::super::{Comparison, pool_groups};
    use super::*;

    /// A pool of Karpenter's provider for AWS with these requirements, in YAML, or of EKS Auto Mode
    /// if they have its labels.
    fn aws_pool(requirements: &str) -> NodePool {
        let requirements: serde_json::Value = base::input::parse(requirements, "pool").unwrap();
        let is_eks = requirements.to_string().contains("eks.amazonaws.com");
        let (group, kind) = if is_eks {
            ("eks.amazonaws.com", "NodeClass")
        } else {
            ("karpenter.k8s.aws", "EC2NodeClass")
        };
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {"template": {"spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
            }}},
        }))
        .unwrap();
        NodePool::of(&object).unwrap()
    }

    /// Checks the groups of a pool for pods that request these cores, GiB and GPUs, and select
    /// these labels. The first instance type of a group follows its name.
    #[track_caller]
    fn check_flexible(
        requirements: &str,
        (cores, gib, gpus): (u64, u64, u64),
        selector: &[(&str, &str)],
        expected: &[&str],
    ) {
        let pool = aws_pool(requirements);
        let selector: BTreeMap<&str, &str> = selector.iter().copied().collect();
        let requests = json!({
            "cpu": cores.to_string(), "memory": format!("{gib}Gi"), "nvidia.com/gpu": gpus.to_string(),
        });
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"nodeSelector": selector, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        }))
        .unwrap();
        let pods = PodClass::of(&pod, &BTreeSet::new());
        let classes = PoolClasses::of(&pool).unwrap();
        let chosen = classes.class_for(&pods, &[], &BTreeSet::new()).map(str::to_owned);
        let named: BTreeSet<String> = chosen.into_iter().collect();
        let comparison = Comparison { named_parts: &named, ..Comparison::by_taints("pg") };
        let groups = pool_groups([&pool].into_iter(), &<_>::default(), (&[], &[]), &comparison);
        let found = groups.iter().map(|group| format!("{} {}", group.name, group.instance_type));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{requirements}");
    }

    #[test]
    fn a_flexible_pool_has_the_size_that_pods_need() {
        let category = "[{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, \
                         {key: kubernetes.io/arch, operator: In, values: [amd64]}, \
                         {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['4']}";
        let closed = format!("{category}]");
        check_flexible(&closed, (1, 2, 0), &[], &["batch/8cpu-16gib c6a.2xlarge"]);
        check_flexible(&closed, (4, 30, 0), &[], &["batch/16cpu-128gib r5a.4xlarge"]);
        check_flexible(&closed, (4, 1, 1), &[], &[]);
        check_flexible(&closed, (500, 1, 0), &[], &[]);
        let family = &[("karpenter.k8s.aws/instance-family", "m7i")][..];
        check_flexible(&closed, (1, 2, 0), family, &["batch/8cpu-32gib-m7i m7i.2xlarge"]);
        let spot = format!(
            "{category}, {{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}}]"
        );
        let both = ["batch/8cpu-16gib c6a.2xlarge", "batch/8cpu-16gib/spot c6a.2xlarge"];
        check_flexible(&spot, (1, 2, 0), &[], &both);
        let arm = "[{key: kubernetes.io/arch, operator: In, values: [arm64, amd64]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7g, m7i]}]";
        check_flexible(arm, (1, 4, 0), &[], &["batch/4cpu-16gib-arm64 m7g.xlarge"]);
        let amd = &[("kubernetes.io/arch", "amd64")][..];
        check_flexible(arm, (1, 4, 0), amd, &["batch/4cpu-16gib m7i.xlarge"]);
        let gpu =
            "[{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100, l40s]}]";
        check_flexible(gpu, (8, 60, 1), &[], &["batch/1xl40s-45gib-16cpu-128gib g6e.4xlarge"]);
        let named = &[("karpenter.k8s.aws/instance-gpu-name", "h100")][..];
        check_flexible(gpu, (8, 60, 1), named, &["batch/1xh100-80gib-16cpu-256gib p5.4xlarge"]);
        let few = "[{key: karpenter.k8s.aws/instance-cpu, operator: In, values: ['16']}, {key: karpenter.k8s.aws/instance-memory, operator: Lt, values: ['65537']}, {key: karpenter.k8s.aws/instance-hypervisor, operator: In, values: [nitro]}]";
        check_flexible(few, (1, 1, 0), amd, &["batch/16cpu-32gib c6a.4xlarge"]);
        let disk = "[{key: karpenter.k8s.aws/instance-local-nvme, operator: Gt, values: ['800']}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}]";
        check_flexible(disk, (1, 1, 0), amd, &["batch/16cpu-64gib m6id.4xlarge"]);
        let not = "[{key: node.kubernetes.io/instance-type, operator: NotIn, values: [m7i.xlarge]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i, m7a]}]";
        check_flexible(not, (1, 4, 0), &[], &["batch/8cpu-32gib m7i.2xlarge"]);
        let values = "[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i, m7a], minValues: 2}]";
        check_flexible(values, (1, 4, 0), &[], &["batch/4cpu-16gib m7i.xlarge"]);
        let values = "[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i, m7a], minValues: 3}]";
        check_flexible(values, (1, 4, 0), &[], &[]);
    }

    /// The requirements are those of the AWS documentation ("Enable or disable built-in
    /// NodePools").
    #[test]
    fn the_built_in_pools_of_eks_auto_mode_have_sizes() {
        let of_both = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, \
                       {key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]}, \
                       {key: eks.amazonaws.com/instance-generation, operator: Gt, values: ['4']}, \
                       {key: kubernetes.io/os, operator: In, values: [linux]}";
        let arch = |values: &str| {
            format!("[{of_both}, {{key: kubernetes.io/arch, operator: In, values: [{values}]}}]")
        };
        let general_purpose = arch("amd64");
        check_flexible(&general_purpose, (3, 10, 0), &[], &["batch/4cpu-16gib m5a.xlarge"]);
        check_flexible(&general_purpose, (3, 10, 1), &[], &[]);
        let family = &[("eks.amazonaws.com/instance-family", "m7i")][..];
        check_flexible(&general_purpose, (3, 10, 0), family, &["batch/4cpu-16gib-m7i m7i.xlarge"]);
        let arm = &[("kubernetes.io/arch", "arm64")][..];
        check_flexible(
            &arch("amd64, arm64"),
            (3, 10, 0),
            arm,
            &["batch/4cpu-16gib-arm64 m6g.xlarge"],
        );
    }

    /// A DaemonSet that runs on a node takes room from pods, and one that fits no node takes none.
    #[test]
    fn only_daemon_sets_that_fit_a_node_count_in_the_choice_of_a_size() {
        let pool = aws_pool(
            "[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}, {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ['8', '16']}]",
        );
        let classes = PoolClasses::of(&pool).unwrap();
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "7200m"}}}]},
        }))
        .unwrap();
        let pods = PodClass::of(&pod, &BTreeSet::new());
        let check = |cpu_millis, expected| {
            let every_pod = serde_json::from_str("{}").unwrap();
            let daemon = Daemon {
                name: "kube-system/a".into(),
                constraints: crate::observe::Constraints::of_daemon(&every_pod),
                requests: Resources { cpu_millis, pods: 1, ..Resources::default() },
            };
            let chosen = classes.class_for(&pods, &[daemon], &BTreeSet::new());
            assert_eq!(chosen, Some(expected), "{cpu_millis}");
        };
        check(100, "8cpu-32gib");
        check(500, "16cpu-64gib");
        check(64_000, "8cpu-32gib");
    }

    #[test]
    fn a_flexible_pool_has_at_most_eight_sizes() {
        let pool =
            aws_pool("[{key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}]");
        let classes = PoolClasses::of(&pool).unwrap();
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": [{"name": "c"}]},
        }))
        .unwrap();
        let pods = PodClass::of(&pod, &BTreeSet::new());
        let all = classes.classes.keys().take(CLASSES_MAX).map(|name| (*name).to_owned());
        let all: BTreeSet<String> = all.collect();
        assert_eq!(classes.class_for(&pods, &[], &all), None);
        let fewer = all.iter().skip(1).cloned().collect();
        assert!(classes.class_for(&pods, &[], &fewer).is_some());
    }
}
