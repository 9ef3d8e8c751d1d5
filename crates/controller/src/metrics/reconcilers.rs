//! HNC's metrics of its reconcilers, with the same names, so that dashboards for HNC continue to work. HNC exports all of them as
//! gauges with the last value; here the totals are counters.
//!
//! A reconciliation of a hierarchy in HNC corresponds to a pass over the structure of a namespace here. A reconciliation of an
//! object corresponds to that object in a pass over the objects of a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::core::plan::Action;
use forest::plan::Plan;
use forest::{Forest, Kind, KindId, Name, ObjectScope, Scope};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::peak::Peak;
use crate::dialect::Dialect;

/// The label of all metrics of objects. It is present but empty when it is suppressed.
const GROUP_KIND: &str = "GroupKind";

/// The metrics. Clones share the counters.
#[derive(Clone, Debug)]
pub(crate) struct Reconcilers {
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    /// Whether metrics of objects are sums over all kinds.
    suppressed: bool,
    hierarchies: IntCounter,
    hierarchies_peak: IntGauge,
    hierarchy_writes: IntCounter,
    namespace_writes: IntCounter,
    objects: IntCounterVec,
    objects_peak: IntGaugeVec,
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
    /// The number of objects, by kind.
    objects: BTreeMap<KindId, (Kind, u64)>,
}

impl Pass {
    /// The pass that executes this plan.
    pub(crate) fn of(forest: &Forest, namespace: &Name, scope: &Scope, plan: &Plan) -> Self {
        let is_managed = forest.exists(namespace);
        let mut objects: BTreeMap<KindId, (Kind, u64)> = BTreeMap::new();
        let mut add = |kind: KindId| {
            if is_managed {
                objects.entry(kind).or_insert_with(|| (forest.kind(kind).clone(), 0)).1 += 1;
            }
        };
        match &plan.scope.objects {
            ObjectScope::None => {}
            ObjectScope::Some(keys) => keys.iter().for_each(|key| add(key.kind)),
            ObjectScope::All => {
                let created = plan.actions().filter_map(|action| match action {
                    Action::CreateCopy { key, .. } => Some(key),
                    _ => None,
                });
                forest.objects_in(namespace).chain(created).for_each(|key| add(key.kind));
            }
        }
        Self { structure: is_managed && scope.structure, objects }
    }
}

/// A pass that is running. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ActivePass {
    reconcilers: Reconcilers,
    pass: Pass,
}

impl Reconcilers {
    pub(crate) fn register(registry: &Registry, suppressed: bool) -> prometheus::Result<Self> {
        let reconcilers = Self { counters: Arc::new(Counters::new(suppressed)?) };
        registry.register(Box::new(reconcilers.clone()))?;
        Ok(reconcilers)
    }

    /// Counts the start of a pass.
    pub(crate) fn start(&self, pass: Pass) -> ActivePass {
        let counters = &self.counters;
        for (kind, count) in pass.objects.values() {
            let tag = counters.tag(kind);
            counters.objects.with_label_values(&[&tag]).inc_by(*count);
            // Export the other counters too, even when they are 0.
            for counter in [&counters.object_writes, &counters.object_overwrites] {
                counter.with_label_values(&[&tag]).inc_by(0);
            }
        }
        if pass.structure {
            counters.hierarchies.inc();
        }
        self.update_peaks(&pass, Peak::increment);
        ActivePass { reconcilers: self.clone(), pass }
    }

    /// Counts a write before it is sent.
    pub(crate) fn count_write<D: Dialect>(&self, forest: &Forest, namespace: &Name, action: &Action<D>) {
        let counters = &self.counters;
        match action {
            Action::PatchNamespace { .. } => counters.namespace_writes.inc(),
            Action::Dialect(action) if action.writes_hierarchy() => counters.hierarchy_writes.inc(),
            Action::Dialect(_) => {}
            Action::CreateCopy { key, .. } | Action::DeleteCopy { key, .. } => {
                counters.object_writes.with_label_values(&[counters.tag(forest.kind(key.kind))]).inc();
            }
            Action::ReplaceCopy { key, content, .. } => {
                let tag = counters.tag(forest.kind(key.kind));
                counters.object_writes.with_label_values(&[&tag]).inc();
                if forest.would_overwrite(namespace, key, content.digest()) {
                    counters.object_overwrites.with_label_values(&[&tag]).inc();
                }
            }
        }
    }

    fn update_peaks(&self, pass: &Pass, update: fn(&mut Peak)) {
        let mut peaks = self.counters.peaks.lock();
        if pass.structure {
            update(&mut peaks.hierarchies);
        }
        for (kind, _) in pass.objects.values() {
            update(peaks.objects.entry(self.counters.tag(kind)).or_insert_with(Peak::new));
        }
    }
}

impl Drop for ActivePass {
    fn drop(&mut self) {
        self.reconcilers.update_peaks(&self.pass, Peak::decrement);
    }
}

impl Counters {
    fn new(suppressed: bool) -> prometheus::Result<Self> {
        let by_kind = |name, help| IntCounterVec::new(Opts::new(name, help), &[GROUP_KIND]);
        let counters = Self {
            suppressed,
            hierarchies: IntCounter::new(
                "hnc_reconcilers_hierconfig_total",
                "Passes over the structure of managed namespaces.",
            )?,
            hierarchies_peak: IntGauge::new(
                "hnc_reconcilers_hierconfig_concurrent_peak",
                "Highest number of concurrent passes over the structure of namespaces, in this minute and the one before.",
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
                "Objects in passes over namespaces, by group and kind.",
            )?,
            objects_peak: IntGaugeVec::new(
                Opts::new(
                    "hnc_reconcilers_object_concurrent_peak",
                    "Highest number of concurrent passes over objects, in this minute and the one before, by group and kind.",
                ),
                &[GROUP_KIND],
            )?,
            object_writes: by_kind(
                "hnc_reconcilers_object_writes_total",
                "Attempts to write or delete a copy, by group and kind.",
            )?,
            object_overwrites: by_kind(
                "hnc_reconcilers_object_overwrites_total",
                "Attempts to write a copy over an object that was not a copy, or over different content, by group and kind.",
            )?,
            peaks: Mutex::new(Peaks { hierarchies: Peak::new(), objects: BTreeMap::new() }),
        };
        if suppressed {
            counters.export_zeros();
        }
        Ok(counters)
    }

    /// Exports each series from the start.
    fn export_zeros(&self) {
        for counter in [&self.objects, &self.object_writes, &self.object_overwrites] {
            counter.with_label_values(&[""]).reset();
        }
        self.peaks.lock().objects.insert(String::new(), Peak::new());
    }

    /// For example `Role.rbac.authorization.k8s.io` or `Secret`; empty when suppressed.
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
            &self.hierarchies_peak,
            &self.hierarchy_writes,
            &self.namespace_writes,
            &self.objects,
            &self.objects_peak,
            &self.object_writes,
            &self.object_overwrites,
        ]
    }

    fn update_gauges(&self) {
        let set = |gauge: &IntGauge, peak: &mut Peak| {
            gauge.set(i64::try_from(peak.highest()).unwrap_or(i64::MAX));
        };
        let mut peaks = self.peaks.lock();
        set(&self.hierarchies_peak, &mut peaks.hierarchies);
        for (tag, peak) in &mut peaks.objects {
            set(&self.objects_peak.with_label_values(&[tag]), peak);
        }
    }
}

impl Collector for Reconcilers {
    fn desc(&self) -> Vec<&Desc> {
        self.counters.collectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.counters.update_gauges();
        self.counters.collectors().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests;
