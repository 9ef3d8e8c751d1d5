//! The numbers that both binaries show: streams, and how much the forest holds.
//!
//! Labels take their values from fixed sets only. Sizes are read when they are asked for.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::handle::ForestHandle;

/// What has become of the watches.
#[derive(Clone, Debug)]
pub struct StreamMetrics {
    lists: IntCounterVec,
    failures: IntCounterVec,
}

impl StreamMetrics {
    /// Shows them in `registry`.
    ///
    /// # Errors
    /// When they are shown there already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["resource"]);
        let metrics = Self {
            lists: counter("hns_watch_lists_total", "Complete lists received, by resource.")?,
            failures: counter(
                "hns_watch_failures_total",
                "Lists and watches that failed or broke off, by resource.",
            )?,
        };
        registry.register(Box::new(metrics.lists.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn listed(&self, resource: &str) {
        self.lists.with_label_values(&[resource]).inc();
    }

    pub(crate) fn failed(&self, resource: &str) {
        self.failures.with_label_values(&[resource]).inc();
    }
}

/// How much the forest holds, read at each scrape.
#[derive(Debug)]
pub struct ForestMetrics {
    forest: ForestHandle,
    namespaces: IntGauge,
    halted: IntGauge,
    objects: IntGaugeVec,
}

impl ForestMetrics {
    /// Shows them in `registry`.
    ///
    /// # Errors
    /// When they are shown there already.
    pub fn register(registry: &Registry, forest: ForestHandle) -> prometheus::Result<()> {
        let objects = Opts::new("hns_forest_objects", "Objects of propagated kinds, by role.");
        registry.register(Box::new(Self {
            forest,
            namespaces: IntGauge::new("hns_forest_namespaces", "Managed namespaces.")?,
            halted: IntGauge::new(
                "hns_forest_halted_namespaces",
                "Managed namespaces halted for a reason of their own.",
            )?,
            objects: IntGaugeVec::new(objects, &["role"])?,
        }))
    }
}

impl Collector for ForestMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.namespaces.desc(), self.halted.desc(), self.objects.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sizes = self.forest.read(forest::Forest::sizes);
        let set = |gauge: &IntGauge, size: usize| gauge.set(i64::try_from(size).unwrap_or(i64::MAX));
        set(&self.namespaces, sizes.namespaces);
        set(&self.halted, sizes.halted);
        set(&self.objects.with_label_values(&["source"]), sizes.sources);
        set(&self.objects.with_label_values(&["copy"]), sizes.copies);
        [self.namespaces.collect(), self.halted.collect(), self.objects.collect()].concat()
    }
}
