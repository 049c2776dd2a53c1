//! Converts the jobs of a log to pods for the buckets of a catalog.

use std::collections::{BTreeSet, HashMap};

use demand::record::ShapeId;
use embedder::{
    AcceleratorKind, BucketId, BucketSet, CapacityType, Catalog, Gang, PodRequest, Resources,
    Shape, Unfit, VirtualInstance, split, virtual_instance,
};
use instances::why_unfit;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use traces::{Admits, Job, Work};

/// The index of a class in [`Workload::classes`].
pub type JobClassId = usize;

/// The jobs of a log, prepared for a catalog. It does not depend on a policy.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The jobs that fit, by submission, then by their order in the log.
    pub jobs: Vec<WorkloadJob>,
    /// The classes of jobs. Jobs of one class are interchangeable.
    pub classes: Vec<JobClass>,
    /// The shapes of pods, in the order of first use.
    pub shapes: Vec<Shape>,
    /// The buckets that each shape fits.
    pub(crate) fits: Vec<BucketSet>,
    /// Jobs that fit no bucket, by reason.
    pub unplaceable: Vec<Unplaceable>,
}

/// A job that fits.
#[derive(Clone, Debug)]
pub struct WorkloadJob {
    /// The index of the job in the log.
    pub index: usize,
    /// When it is submitted, in seconds of the log.
    pub submit: i64,
    /// How long it runs, in seconds.
    pub runtime: i64,
    /// Its class, by number.
    pub class: JobClassId,
    /// The number of the user; `None` if the log has no user for the job.
    pub user: Option<u32>,
    /// The jobs that it waits for, by their indices in the log. They are before it in the log.
    pub after: Box<[usize]>,
}

/// The pods of a job, largest first, and its priority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobClass {
    /// The pods: their shape and their number.
    pub pods: Vec<(ShapeId, u64)>,
    /// The priority of the pods.
    pub priority: i32,
    /// A lower bound of the number of nodes that hold all pods.
    pub nodes_min: u64,
    /// The instances that the pods take if they start together on nodes of one bucket. `None` if
    /// they fit on one instance, or only on nodes of several buckets.
    pub virtual_instance: Option<VirtualInstance>,
    /// Whether all pods must be on nodes of one group.
    pub one_group: bool,
}

impl JobClass {
    /// The number of pods.
    pub(crate) fn pod_count(&self) -> u64 {
        self.pods.iter().map(|(_, count)| count).sum()
    }
}

/// Jobs that are left out for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaceable {
    /// The name of the first job in the log.
    pub first: String,
    /// The number of jobs.
    pub jobs: u64,
    /// The largest requests of a unit.
    requests: Resources,
    kind: AcceleratorKind,
    reason: Reason,
}

/// Why a job is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Unfit(Unfit),
    TooManyPods,
}

impl Unplaceable {
    fn new(job: &Job, reason: Reason) -> Self {
        let Work { unit, accelerator_kind, .. } = &job.work;
        let kind = accelerator_kind.clone();
        Self { first: job.name.to_string(), jobs: 1, requests: *unit, kind, reason }
    }

    /// Adds a job if its reason and its kind of accelerators are these. Returns whether it did.
    fn add(&mut self, job: &Job, reason: Reason) -> bool {
        let Work { unit, accelerator_kind, .. } = &job.work;
        let plain = |requests: Resources| requests.accelerators == 0;
        let alike = plain(*unit) && plain(self.requests)
            || !plain(*unit) && !plain(self.requests) && *accelerator_kind == self.kind;
        if !alike || reason != self.reason {
            return false;
        }
        self.jobs += 1;
        self.requests = self.requests.roof(*unit);
        true
    }

    /// A sentence that names the jobs, the reason and what to do.
    pub fn sentence(&self, catalog: &Catalog) -> String {
        let Self { first, jobs, requests, kind, reason } = self;
        let jobs = if *jobs == 1 {
            format!("job {first} is left out")
        } else {
            format!("{jobs} jobs are left out (the first is job {first})")
        };
        match reason {
            Reason::TooManyPods => {
                format!("{jobs}: more than {PODS_MAX} pods, which are placed one by one")
            }
            Reason::Unfit(unfit) => {
                let why = why_unfit(*unfit, *requests, kind, catalog);
                format!("{jobs}: {why}; give other types with --catalog")
            }
        }
    }
}

/// The most pods of a job. A job with more pods is left out, because the simulation places each pod
/// one by one.
const PODS_MAX: u64 = 100_000;

#[derive(Default)]
struct Builder {
    classes: Vec<JobClass>,
    by_class: HashMap<JobClass, JobClassId>,
    shapes: Vec<Shape>,
    by_shape: HashMap<Shape, ShapeId>,
    known: HashMap<(Work, i32), Result<JobClassId, Reason>>,
}

/// Numbers users in the order of their first jobs.
#[derive(Default)]
struct Users<'a>(HashMap<&'a str, u32>);

impl<'a> Users<'a> {
    fn number(&mut self, user: &'a str) -> Option<u32> {
        let next = u32::try_from(self.0.len()).ok()?;
        (!user.is_empty()).then(|| *self.0.entry(user).or_insert(next))
    }
}

impl Workload {
    /// Splits jobs into pods for a catalog. Jobs that fit no bucket are omitted and listed in
    /// [`Self::unplaceable`].
    pub fn new(jobs: &[Job], catalog: &Catalog) -> Self {
        let mut builder = Builder::default();
        let mut kept = Vec::with_capacity(jobs.len());
        let mut unplaceable: Vec<Unplaceable> = Vec::new();
        let mut users = Users::default();
        for (index, job) in jobs.iter().enumerate() {
            match builder.class(job, catalog) {
                Ok(class) => {
                    kept.push(WorkloadJob {
                        index,
                        submit: job.submit,
                        runtime: job.runtime,
                        class,
                        user: users.number(&job.user),
                        after: Box::default(),
                    });
                }
                Err(reason) => {
                    if !unplaceable.iter_mut().any(|known| known.add(job, reason)) {
                        unplaceable.push(Unplaceable::new(job, reason));
                    }
                }
            }
        }
        wait_for(&mut kept, jobs);
        let fits = builder
            .shapes
            .iter()
            .map(|shape| catalog.buckets_for(shape).unwrap_or_else(|_| BucketSet::none()));
        let fits = fits.collect();
        let Builder { classes, shapes, .. } = builder;
        Self { jobs: kept, classes, shapes, fits, unplaceable }
    }

    /// The number of jobs submitted within a window.
    pub fn jobs_within(&self, (from, until): (i64, i64)) -> usize {
        self.jobs.iter().filter(|job| (from..until).contains(&job.submit)).count()
    }

    /// The priority of a job, by its number.
    pub fn priority(&self, job: usize) -> i32 {
        self.classes[self.jobs[job].class].priority
    }

    /// Adds a class of one pod for each priority and shape, and returns these classes.
    pub(crate) fn single_pods(&mut self) -> HashMap<(i32, ShapeId), JobClassId> {
        let mut single = HashMap::new();
        for JobClass { pods, priority, .. } in self.classes.clone() {
            for (shape, _) in pods {
                single.entry((priority, shape)).or_insert_with(|| {
                    self.classes.push(JobClass {
                        pods: vec![(shape, 1)],
                        priority,
                        nodes_min: 1,
                        virtual_instance: None,
                        one_group: false,
                    });
                    self.classes.len() - 1
                });
            }
        }
        single
    }

    /// Requires all pods of each job on nodes of one group.
    pub(crate) fn require_one_group(&mut self) {
        for class in &mut self.classes {
            class.one_group = class.pod_count() > 1;
        }
    }

    /// Whether a spot bucket of the catalog admits any job.
    pub(crate) fn uses_spot(&self, catalog: &Catalog) -> bool {
        let spot = (0..catalog.len()).filter(|id| !is_on_demand(*id, catalog));
        spot.into_iter().any(|id| self.fits.iter().any(|fits| fits.contains(id)))
    }

    /// The same workload without spot buckets, except for pods that fit no bucket on demand.
    #[must_use]
    pub(crate) fn on_demand(&self, catalog: &Catalog) -> Self {
        let mut workload = self.clone();
        for (shape, fits) in workload.shapes.iter_mut().zip(&mut workload.fits) {
            let ids = (0..catalog.len())
                .filter(|&id| shape.admits.contains(id) && is_on_demand(id, catalog));
            let without = Shape { admits: BucketSet::only(ids), ..shape.clone() };
            if let Ok(fitting) = catalog.buckets_for(&without) {
                (*shape, *fits) = (without, fitting);
            }
        }
        for class in &mut workload.classes {
            class.virtual_instance = needed_together(&class.pods, &workload.shapes, catalog);
        }
        workload
    }

    /// The same workload with every submission from `from` on moved by up to `jitter` seconds in
    /// either direction, but not to a time before `from`.
    #[must_use]
    pub(crate) fn jittered(&self, jitter: i64, seed: u64, from: i64) -> Self {
        let mut workload = self.clone();
        if jitter > 0 {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            for job in workload.jobs.iter_mut().filter(|job| job.submit >= from) {
                job.submit = (job.submit + random.random_range(-jitter..=jitter)).max(from);
            }
            workload.jobs.sort_by_key(|job| job.submit);
        }
        workload
    }
}

/// Sets the jobs that others wait for. A name that several jobs have is that of the last one before
/// the job that waits. Jobs that are left out, and those that come later, are not waited for.
fn wait_for(kept: &mut [WorkloadJob], jobs: &[Job]) {
    let waits = |index: &usize| !jobs[*index].after.is_empty();
    if !(0..jobs.len()).any(|index| waits(&index)) {
        return;
    }
    let mut names: HashMap<&str, usize> = HashMap::new();
    for job in kept {
        let before = jobs[job.index].after.iter().filter_map(|name| names.get(&**name).copied());
        let before: BTreeSet<usize> = before.collect();
        job.after = before.into_iter().collect();
        names.insert(&jobs[job.index].name, job.index);
    }
}

impl Builder {
    fn class(&mut self, job: &Job, catalog: &Catalog) -> Result<JobClassId, Reason> {
        let key = (job.work.clone(), job.priority);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let class = pods(&job.work, catalog).map(|pods| {
            let pods = pods.into_iter();
            let pods = pods.map(|(requests, n)| (self.shape(requests, &job.work, catalog), n));
            let pods: Vec<_> = pods.collect();
            let nodes_min = self.nodes_min(&pods, catalog);
            let virtual_instance = needed_together(&pods, &self.shapes, catalog);
            let priority = job.priority;
            let class = JobClass { pods, priority, nodes_min, virtual_instance, one_group: false };
            let next = self.classes.len();
            *self.by_class.entry(class.clone()).or_insert_with(|| {
                self.classes.push(class);
                next
            })
        });
        self.known.insert(key, class);
        class
    }

    fn nodes_min(&self, pods: &[(ShapeId, u64)], catalog: &Catalog) -> u64 {
        let least = pods.iter().map(|&(shape, count)| {
            let requests = self.shapes[shape as usize].requests;
            let most =
                catalog.buckets().iter().map(|bucket| bucket.allocatable.holds(requests)).max();
            count.div_ceil(most.unwrap_or(1).max(1))
        });
        least.max().unwrap_or(0)
    }

    fn shape(&mut self, requests: Resources, work: &Work, catalog: &Catalog) -> ShapeId {
        let next = ShapeId::try_from(self.shapes.len()).unwrap_or(ShapeId::MAX);
        let shape = shape(requests, work, catalog);
        *self.by_shape.entry(shape).or_insert_with_key(|shape| {
            self.shapes.push(shape.clone());
            next
        })
    }
}

/// The instances of one bucket that pods take if they start together. `None` if they fit on one
/// instance, or only on nodes of several buckets.
fn needed_together(
    pods: &[(ShapeId, u64)],
    shapes: &[Shape],
    catalog: &Catalog,
) -> Option<VirtualInstance> {
    if pods.iter().map(|(_, count)| count).sum::<u64>() <= 1 {
        return None;
    }
    let request = |&(shape, count): &(ShapeId, u64)| PodRequest {
        shape: shapes[shape as usize].clone(),
        count,
    };
    let gang = Gang { requests: pods.iter().map(request).collect() };
    virtual_instance(&gang, catalog).ok().filter(|needed| needed.instances > 1)
}

/// The shape of a pod, with the buckets that admit it.
///
/// If the log does not have these buckets, they are assumed: clusters usually taint nodes with
/// accelerators and spot nodes, so a pod that requests no accelerators is admitted only to buckets
/// without accelerators, and a pod that does not tolerate interruption only to buckets on demand,
/// unless it fits no such bucket.
fn shape(requests: Resources, work: &Work, catalog: &Catalog) -> Shape {
    let shape = Shape::new(requests, work.accelerator_kind.clone());
    let mut interruptible = true;
    match &work.admits {
        Admits::Assumed => interruptible = false,
        Admits::Interruptible => {}
        Admits::All => return shape,
        Admits::Only(names) => {
            let buckets = names.iter().flat_map(|name| catalog.named(name));
            return Shape { admits: BucketSet::only(buckets), ..shape };
        }
    }
    let is_plain = |id: BucketId| catalog.buckets()[id].allocatable.accelerators == 0;
    let fitting = |admitted: &dyn Fn(BucketId) -> bool| {
        let admits = BucketSet::only((0..catalog.len()).filter(|id| admitted(*id)));
        Some(Shape { admits, ..shape.clone() }).filter(|shape| catalog.buckets_for(shape).is_ok())
    };
    let on_demand = |id: BucketId| is_on_demand(id, catalog);
    let of_on_demand =
        || fitting(&|id| is_plain(id) && on_demand(id)).or_else(|| fitting(&on_demand));
    let all_on_demand = (0..catalog.len()).all(on_demand);
    let preferred = if interruptible || all_on_demand { None } else { of_on_demand() };
    preferred.or_else(|| fitting(&is_plain)).unwrap_or_else(|| shape.clone())
}

fn is_on_demand(id: BucketId, catalog: &Catalog) -> bool {
    catalog.buckets()[id].capacity_type == CapacityType::OnDemand
}

/// The pods of a job as (requests, count), largest first: one pod per unit, or, if the work has a
/// split, pods of as many units as the bucket that holds the most.
fn pods(work: &Work, catalog: &Catalog) -> Result<Vec<(Resources, u64)>, Reason> {
    let Work { units, unit, split: how, .. } = work;
    let one = shape(*unit, work, catalog);
    let fits = catalog.buckets_for(&one).map_err(Reason::Unfit)?;
    let buckets = catalog
        .buckets()
        .iter()
        .enumerate()
        .filter(|&(id, _)| fits.contains(id))
        .map(|(_, bucket)| bucket);
    // Among buckets that hold the same number of units, the smallest one is chosen.
    let largest = buckets.rev().max_by_key(|bucket| bucket.allocatable.holds(*unit));
    let pods = match (how, largest) {
        (Some(how), Some(bucket)) => split(*units, *unit, bucket, *how).unwrap_or_default(),
        _ => vec![(one.requests, *units)],
    };
    if pods.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n)) > PODS_MAX {
        return Err(Reason::TooManyPods);
    }
    Ok(pods)
}
