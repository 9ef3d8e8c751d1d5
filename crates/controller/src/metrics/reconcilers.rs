//! HNC's figures of its reconcilers, by its names, so that its users' dashboards go on. HNC exports all of them as last
//! values; here counters only rise and sums are sums.
//!
//! What HNC calls a reconciliation of a hierarchy is a pass over the structure of a namespace here, one of an object its share
//! in a pass over the objects of a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::plan::{Action, Plan};
use forest::{Forest, Kind, KindId, Name, ObjectScope, Scope};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::peak::Peak;

/// The label of everything about objects; empty, but present, where it is suppressed.
const GROUP_KIND: &str = "GroupKind";

/// HNC's figures. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Reconcilers {
    figures: Arc<Figures>,
}

#[derive(Debug)]
struct Figures {
    /// Everything about objects is one sum over all kinds.
    suppressed: bool,
    hierarchies: IntCounter,
    hierarchies_at_once: IntGauge,
    hierarchy_writes: IntCounter,
    namespace_writes: IntCounter,
    objects: IntCounterVec,
    objects_at_once: IntGaugeVec,
    object_writes: IntCounterVec,
    object_overwrites: IntCounterVec,
    peaks: Mutex<Peaks>,
}

#[derive(Debug)]
struct Peaks {
    hierarchies: Peak,
    objects: BTreeMap<String, Peak>,
}

/// One pass over a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pass {
    structure: bool,
    /// How many objects are looked at, by kind.
    objects: BTreeMap<KindId, (Kind, u64)>,
}

impl Pass {
    /// The pass that this plan is the beginning of.
    pub(crate) fn of(forest: &Forest, namespace: &Name, scope: &Scope, plan: &Plan) -> Self {
        let is_managed = forest.exists(namespace);
        let mut objects: BTreeMap<KindId, (Kind, u64)> = BTreeMap::new();
        let mut look = |kind: KindId| {
            if is_managed {
                objects.entry(kind).or_insert_with(|| (forest.kind(kind).clone(), 0)).1 += 1;
            }
        };
        match &plan.scope.objects {
            ObjectScope::None => {}
            ObjectScope::Some(keys) => keys.iter().for_each(|key| look(key.kind)),
            ObjectScope::All => {
                let created = plan.actions().filter_map(|action| match action {
                    Action::Create { key, .. } => Some(key),
                    _ => None,
                });
                forest.objects_in(namespace).chain(created).for_each(|key| look(key.kind));
            }
        }
        Self { structure: is_managed && scope.structure, objects }
    }
}

/// A pass under way. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ActivePass {
    reconcilers: Reconcilers,
    pass: Pass,
}

impl Reconcilers {
    pub(crate) fn register(registry: &Registry, suppressed: bool) -> prometheus::Result<Self> {
        let reconcilers = Self { figures: Arc::new(Figures::new(suppressed)?) };
        registry.register(Box::new(reconcilers.clone()))?;
        Ok(reconcilers)
    }

    /// Counts a pass.
    pub(crate) fn begin(&self, pass: Pass) -> ActivePass {
        let figures = &self.figures;
        for (kind, looked_at) in pass.objects.values() {
            let tag = figures.tag(kind);
            figures.objects.with_label_values(&[&tag]).inc_by(*looked_at);
            // From here on the others are shown, be they zero.
            for counter in [&figures.object_writes, &figures.object_overwrites] {
                counter.with_label_values(&[&tag]).inc_by(0);
            }
        }
        if pass.structure {
            figures.hierarchies.inc();
        }
        self.move_peaks(&pass, Peak::more);
        ActivePass { reconcilers: self.clone(), pass }
    }

    /// Counts a write that is about to be made.
    pub(crate) fn write(&self, forest: &Forest, namespace: &Name, action: &Action) {
        let figures = &self.figures;
        match action {
            Action::Mark { .. } => figures.namespace_writes.inc(),
            Action::CreateHierarchy { .. } | Action::ChangeHierarchy { .. } => figures.hierarchy_writes.inc(),
            Action::Create { key, .. } | Action::Delete { key, .. } => {
                figures.object_writes.with_label_values(&[figures.tag(forest.kind(key.kind))]).inc();
            }
            Action::Replace { key, content, .. } => {
                let tag = figures.tag(forest.kind(key.kind));
                figures.object_writes.with_label_values(&[&tag]).inc();
                if forest.would_overwrite(namespace, key, content.digest()) {
                    figures.object_overwrites.with_label_values(&[&tag]).inc();
                }
            }
            Action::ChangeAnchor { .. }
            | Action::CreateSubnamespace { .. }
            | Action::BindInitialAdmin { .. }
            | Action::DeleteSubnamespace { .. } => {}
        }
    }

    fn move_peaks(&self, pass: &Pass, how: fn(&mut Peak)) {
        let mut peaks = self.figures.peaks.lock();
        if pass.structure {
            how(&mut peaks.hierarchies);
        }
        for (kind, _) in pass.objects.values() {
            how(peaks.objects.entry(self.figures.tag(kind)).or_insert_with(Peak::new));
        }
    }
}

impl Drop for ActivePass {
    fn drop(&mut self) {
        self.reconcilers.move_peaks(&self.pass, Peak::less);
    }
}

impl Figures {
    fn new(suppressed: bool) -> prometheus::Result<Self> {
        let by_kind = |name, help| IntCounterVec::new(Opts::new(name, help), &[GROUP_KIND]);
        let figures = Self {
            suppressed,
            hierarchies: IntCounter::new(
                "hnc_reconcilers_hierconfig_total",
                "Passes over the structure of managed namespaces.",
            )?,
            hierarchies_at_once: IntGauge::new(
                "hnc_reconcilers_hierconfig_concurrent_peak",
                "Most passes over the structure of namespaces at a time, in this minute and the one before.",
            )?,
            hierarchy_writes: IntCounter::new(
                "hnc_reconcilers_hierconfig_hierconfig_writes_total",
                "Attempts to write a HierarchyConfiguration.",
            )?,
            namespace_writes: IntCounter::new(
                "hnc_reconcilers_hierconfig_namespace_writes_total",
                "Attempts to write labels and annotations of a namespace.",
            )?,
            objects: by_kind(
                "hnc_reconcilers_object_total",
                "Objects looked at in passes over namespaces, by group and kind.",
            )?,
            objects_at_once: IntGaugeVec::new(
                Opts::new(
                    "hnc_reconcilers_object_concurrent_peak",
                    "Most passes over objects at a time, in this minute and the one before, by group and kind.",
                ),
                &[GROUP_KIND],
            )?,
            object_writes: by_kind(
                "hnc_reconcilers_object_writes_total",
                "Attempts to write or delete a copy, by group and kind.",
            )?,
            object_overwrites: by_kind(
                "hnc_reconcilers_object_overwrites_total",
                "Attempts to write a copy over an object that was none, or over other content, by group and kind.",
            )?,
            peaks: Mutex::new(Peaks { hierarchies: Peak::new(), objects: BTreeMap::new() }),
        };
        if suppressed {
            figures.show_zeros();
        }
        Ok(figures)
    }

    /// The one series of each is there before anything happens.
    fn show_zeros(&self) {
        for counter in [&self.objects, &self.object_writes, &self.object_overwrites] {
            counter.with_label_values(&[""]).reset();
        }
        self.peaks.lock().objects.insert(String::new(), Peak::new());
    }

    /// `Role.rbac.authorization.k8s.io`, `Secret`, or nothing.
    fn tag(&self, kind: &Kind) -> String {
        match (self.suppressed, &*kind.group) {
            (true, _) => String::new(),
            (false, "") => kind.kind.clone(),
            (false, group) => format!("{}.{group}", kind.kind),
        }
    }

    fn collectors(&self) -> [&dyn Collector; 8] {
        [
            &self.hierarchies,
            &self.hierarchies_at_once,
            &self.hierarchy_writes,
            &self.namespace_writes,
            &self.objects,
            &self.objects_at_once,
            &self.object_writes,
            &self.object_overwrites,
        ]
    }

    fn show_peaks(&self) {
        let show = |gauge: &IntGauge, peak: &mut Peak| {
            gauge.set(i64::try_from(peak.highest()).unwrap_or(i64::MAX));
        };
        let mut peaks = self.peaks.lock();
        show(&self.hierarchies_at_once, &mut peaks.hierarchies);
        for (tag, peak) in &mut peaks.objects {
            show(&self.objects_at_once.with_label_values(&[tag]), peak);
        }
    }
}

impl Collector for Reconcilers {
    fn desc(&self) -> Vec<&Desc> {
        self.figures.collectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.figures.show_peaks();
        self.figures.collectors().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests;
