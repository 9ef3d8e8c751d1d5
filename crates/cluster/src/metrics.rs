//! The metrics that both programs export: streams, and the size of the forest.
//!
//! Label values come from fixed sets. Sizes are read at each scrape.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::handle::ForestHandle;

/// The API server records write times in whole seconds, so smaller buckets are useless.
const LAG_SECONDS: [f64; 7] = [1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0];

/// The metrics of the watches.
#[derive(Clone, Debug)]
pub struct StreamMetrics {
    lists: IntCounterVec,
    failures: IntCounterVec,
    running: IntGaugeVec,
    lag: HistogramVec,
}

impl StreamMetrics {
    /// Registers the metrics in `registry`.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["resource"]);
        let metrics = Self {
            lists: counter("hns_watch_lists_total", "Complete lists received, by resource.")?,
            failures: counter(
                "hns_watch_failures_total",
                "Lists and watches that failed or were interrupted, by resource.",
            )?,
            running: IntGaugeVec::new(
                Opts::new("hns_watches", "1 for each configured kind whose objects are watched."),
                &["resource"],
            )?,
            lag: HistogramVec::new(
                HistogramOpts::new(
                    "hns_watch_lag_seconds",
                    "Time from a write, recorded in whole seconds, until this program received it, by resource. Of writes in the same second, the first counts.",
                )
                .buckets(LAG_SECONDS.to_vec()),
                &["resource"],
            )?,
        };
        registry.register(Box::new(metrics.lists.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        registry.register(Box::new(metrics.running.clone()))?;
        registry.register(Box::new(metrics.lag.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn listed(&self, resource: &str) {
        self.lists.with_label_values(&[resource]).inc();
    }

    pub(crate) fn failed(&self, resource: &str) {
        self.failures.with_label_values(&[resource]).inc();
    }

    /// Records that a write of this time was received at `now`.
    pub(crate) fn seen(&self, resource: &str, written: Timestamp, now: Timestamp) {
        // Clocks differ; a negative lag counts as zero.
        let lag = now.duration_since(written).as_secs_f64().max(0.0);
        self.lag.with_label_values(&[resource]).observe(lag);
    }

    pub(crate) fn started(&self, resource: &str) {
        self.running.with_label_values(&[resource]).inc();
    }

    pub(crate) fn stopped(&self, resource: &str) {
        let running = self.running.with_label_values(&[resource]);
        running.dec();
        // While settings change, two forests are fed.
        if running.get() <= 0 {
            // An error means that it was not running.
            let _ = self.running.remove_label_values(&[resource]);
        }
    }
}

/// The newest write that a stream has received.
#[derive(Debug, Default)]
pub(crate) struct NewestWrite(Option<Timestamp>);

impl NewestWrite {
    /// The time of the last write that the object records, if it is newer than all before. An older one does not tell when this object was
    /// changed: a deletion, the removal of a label and an updated copy leave no time.
    pub(crate) fn advance(&mut self, object: &ObjectMeta) -> Option<Timestamp> {
        let fields = object.managed_fields.iter().flatten();
        let recorded = fields.filter_map(|it| it.time.as_ref()).map(|time| time.0).max();
        let newer = recorded.filter(|time| self.0.is_none_or(|newest| *time > newest));
        self.0 = newer.or(self.0);
        newer
    }
}

/// The size of the forest, read at each scrape.
#[derive(Debug)]
pub struct ForestMetrics {
    forest: ForestHandle,
    namespaces: IntGauge,
    halted: IntGauge,
    objects: IntGaugeVec,
}

impl ForestMetrics {
    /// Registers the metrics in `registry`.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register(registry: &Registry, forest: ForestHandle) -> prometheus::Result<()> {
        registry.register(Box::new(Self {
            forest,
            namespaces: IntGauge::new("hns_forest_namespaces", "Managed namespaces.")?,
            halted: IntGauge::new(
                "hns_forest_halted_namespaces",
                "Managed namespaces that are halted for a reason of their own.",
            )?,
            objects: objects()?,
        }))
    }

    /// The series of a kind that is no longer propagated are removed.
    fn collect_objects(&self) -> Vec<MetricFamily> {
        let Ok(gauge) = objects() else { return Vec::new() };
        self.forest.read(|forest| {
            for (kind, settings) in forest.kinds() {
                let (resource, counts) = (settings.kind.group_resource(), forest.counts(kind));
                set(&gauge.with_label_values(&[&*resource, "source"]), counts.sources);
                set(&gauge.with_label_values(&[&*resource, "copy"]), counts.copies);
            }
        });
        gauge.collect()
    }
}

fn objects() -> prometheus::Result<IntGaugeVec> {
    let opts = Opts::new(
        "hns_forest_objects",
        "Objects of propagated kinds, by resource and role: copy, or source for every other object.",
    );
    IntGaugeVec::new(opts, &["resource", "role"])
}

fn set(gauge: &IntGauge, size: usize) {
    gauge.set(i64::try_from(size).unwrap_or(i64::MAX));
}

impl Collector for ForestMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.namespaces.desc(), self.halted.desc(), self.objects.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sizes = self.forest.read(|forest| forest.sizes());
        set(&self.namespaces, sizes.namespaces);
        set(&self.halted, sizes.halted);
        [self.namespaces.collect(), self.halted.collect(), self.collect_objects()].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::{Fact, Forest, Kind, KindSettings, Mode, ObjectFact, Settings, Version};
    use prometheus::TextEncoder;

    use super::*;
    use crate::handle::ForestWriter;

    fn object(name: &str, inherited_from: Option<&str>) -> ObjectFact {
        ObjectFact {
            inherited_from: inherited_from.map(Into::into),
            ..ObjectFact::new(
                "a".into(),
                name.into(),
                Version { uid: name.into(), resource_version: "1".into() },
            )
        }
    }

    #[test]
    fn a_lag_is_measured_where_an_object_records_a_new_write() {
        let second = |it| Timestamp::from_second(it).unwrap();
        let object = |fields: &[i64]| -> ObjectMeta {
            let fields = fields.iter().map(|it| serde_json::json!({ "time": second(*it).to_string() }));
            serde_json::from_value(serde_json::json!({
                "creationTimestamp": second(900).to_string(), "managedFields": fields.collect::<Vec<_>>(),
            }))
            .unwrap()
        };
        let mut newest = NewestWrite::default();
        for (fields, wanted) in [
            (&[995, 960][..], Some(995)),
            (&[], None),
            // A label of the same object was removed, and an older object deleted.
            (&[995, 960], None),
            (&[930], None),
            (&[930, 996], Some(996)),
        ] {
            assert_eq!(newest.advance(&object(fields)), wanted.map(second), "{fields:?}");
        }
        let metrics = StreamMetrics::register(&Registry::new()).unwrap();
        for (written, sum) in [(995, 5.0), (1_003, 5.0)] {
            metrics.seen("x", second(written), second(1_000));
            let lags = metrics.lag.with_label_values(&["x"]);
            assert!((lags.get_sample_sum() - sum).abs() < 0.001, "{written}");
        }
    }

    #[test]
    fn the_series_of_a_removed_kind_are_removed() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let forest = Forest::new(Arc::new(settings), vec![Kind::role(), Kind::role_binding()]);
        let role = forest.kind_named("rbac.authorization.k8s.io", "Role").unwrap();
        let (writer, handle) = ForestWriter::new(forest, Box::new(|_| {}));
        let registry = Registry::new();
        ForestMetrics::register(&registry, handle).unwrap();
        let lines = || {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            let of_objects = text.lines().filter(|line| line.starts_with("hns_forest_objects{"));
            of_objects.map(str::to_owned).collect::<Vec<_>>()
        };
        writer.tell([
            Fact::Object(role, object("x", None)),
            Fact::Object(role, object("y", Some("root"))),
            Fact::Object(role, object("z", Some("root"))),
        ]);
        let line = |resource: &str, role: &str, count: u32| {
            format!(
                "hns_forest_objects{{resource=\"{resource}.rbac.authorization.k8s.io\",role=\"{role}\"}} {count}"
            )
        };
        let bindings = [line("rolebindings", "copy", 0), line("rolebindings", "source", 0)];
        let both = [bindings.to_vec(), vec![line("roles", "copy", 2), line("roles", "source", 1)]].concat();
        assert_eq!(lines(), both);
        writer.tell([Fact::Kinds(vec![KindSettings::new(Kind::role_binding(), Mode::Propagate)])]);
        assert_eq!(lines(), bindings);
    }
}
