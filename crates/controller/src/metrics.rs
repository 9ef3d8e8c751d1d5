//! What `hns-controller` counts. Labels take their values from fixed sets only, and from the kinds that the configuration
//! names.

mod conditions;
mod leader;
mod peak;
mod reconcilers;

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, exponential_buckets,
};

use hns_cluster::handle::ForestHandle;

use self::conditions::ConditionMetrics;
pub(crate) use self::leader::LeaderMetrics;
pub(crate) use self::reconcilers::{ActivePass, Pass, Reconcilers};
use crate::apply::Outcome;
use crate::queue::Queue;

const WRITE_SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// What is counted where things happen. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) writes: WriteMetrics,
    pub(crate) events: EventMetrics,
    pub(crate) reconcilers: Reconcilers,
}

impl Metrics {
    /// Shows everything in `registry`; with `suppress_object_tags`, figures of objects are sums over all kinds.
    pub(crate) fn register(
        registry: &Registry,
        queue: &Queue,
        forest: &ForestHandle,
        suppress_object_tags: bool,
    ) -> prometheus::Result<Self> {
        QueueMetrics::register(registry, queue.clone())?;
        ConditionMetrics::register(registry, forest.clone())?;
        Ok(Self {
            writes: WriteMetrics::register(registry)?,
            events: EventMetrics::register(registry)?,
            reconcilers: Reconcilers::register(registry, suppress_object_tags)?,
        })
    }
}

/// Plans by size; writes by kind, outcome and time.
#[derive(Clone, Debug)]
pub(crate) struct WriteMetrics {
    writes: IntCounterVec,
    took: HistogramVec,
    planned: Histogram,
}

impl WriteMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let writes = Opts::new("hns_writes_total", "Writes to the cluster, by action and outcome.");
        let took = HistogramOpts::new(
            "hns_write_duration_seconds",
            "Time that writes to the cluster took, by action; one that is made of several requests counts once.",
        );
        let planned =
            HistogramOpts::new("hns_plan_writes", "How many writes were planned for a namespace at a time.");
        let sizes = [vec![0.0], exponential_buckets(1.0, 4.0, 8)?].concat();
        let metrics = Self {
            writes: IntCounterVec::new(writes, &["action", "outcome"])?,
            took: HistogramVec::new(took.buckets(WRITE_SECONDS.to_vec()), &["action"])?,
            planned: Histogram::with_opts(planned.buckets(sizes))?,
        };
        registry.register(Box::new(metrics.writes.clone()))?;
        registry.register(Box::new(metrics.took.clone()))?;
        registry.register(Box::new(metrics.planned.clone()))?;
        Ok(metrics)
    }

    #[expect(clippy::cast_precision_loss, reason = "no plan has so many writes")]
    pub(crate) fn planned(&self, writes: usize) {
        self.planned.observe(writes as f64);
    }

    pub(crate) fn wrote(&self, action: &str, outcome: &Outcome, took: Duration) {
        self.writes.with_label_values(&[action, outcome.label()]).inc();
        self.took.with_label_values(&[action]).observe(took.as_secs_f64());
    }
}

/// What has become of events.
#[derive(Clone, Debug)]
pub(crate) struct EventMetrics {
    events: IntCounterVec,
}

impl EventMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let events = Opts::new(
            "hns_events_total",
            "Events to be written, by outcome; dropped ones found no room, failed ones were not taken.",
        );
        let events = IntCounterVec::new(events, &["outcome"])?;
        for outcome in ["written", "failed", "dropped"] {
            events.with_label_values(&[outcome]).reset();
        }
        registry.register(Box::new(events.clone()))?;
        Ok(Self { events })
    }

    pub(crate) fn written(&self) {
        self.events.with_label_values(&["written"]).inc();
    }

    pub(crate) fn failed(&self) {
        self.events.with_label_values(&["failed"]).inc();
    }

    pub(crate) fn dropped(&self) {
        self.events.with_label_values(&["dropped"]).inc();
    }
}

/// How much waits, read at each scrape.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    queue: Queue,
    depth: IntGauge,
}

impl QueueMetrics {
    pub(crate) fn register(registry: &Registry, queue: Queue) -> prometheus::Result<()> {
        let depth = IntGauge::new("hns_queue_depth", "Namespaces waiting to be planned.")?;
        registry.register(Box::new(Self { queue, depth }))
    }
}

impl Collector for QueueMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.depth.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.depth.set(i64::try_from(self.queue.depth()).unwrap_or(i64::MAX));
        self.depth.collect()
    }
}
