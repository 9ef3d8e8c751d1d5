//! The metrics of `hns-controller`. Label values come from fixed sets and from the configured kinds only.

mod conditions;
mod leader;
mod peak;
mod quotas;
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
use self::quotas::QuotaMetrics;
pub(crate) use self::reconcilers::{ActivePass, Pass, Reconcilers};
use crate::apply::Outcome;
use crate::queue::Queue;

const WRITE_SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics that other modules update. Clones share the counters.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) writes: WriteMetrics,
    pub(crate) events: EventMetrics,
    pub(crate) reconcilers: Reconcilers,
}

impl Metrics {
    /// Registers all metrics. With `suppress_object_tags`, metrics of objects are sums over all kinds.
    pub(crate) fn register(
        registry: &Registry,
        queue: &Queue,
        forest: &ForestHandle,
        suppress_object_tags: bool,
    ) -> prometheus::Result<Self> {
        QueueMetrics::register(registry, queue.clone())?;
        ConditionMetrics::register(registry, forest.clone())?;
        QuotaMetrics::register(registry, forest.clone())?;
        Ok(Self {
            writes: WriteMetrics::register(registry)?,
            events: EventMetrics::register(registry)?,
            reconcilers: Reconcilers::register(registry, suppress_object_tags)?,
        })
    }
}

/// The sizes of plans, and the outcomes and durations of writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteMetrics {
    writes: IntCounterVec,
    durations: HistogramVec,
    planned: Histogram,
}

impl WriteMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let writes = Opts::new("hns_writes_total", "Writes to the API server, by action and outcome.");
        let durations = HistogramOpts::new(
            "hns_write_duration_seconds",
            "Duration of writes to the API server, by action. A write of several requests counts once.",
        );
        let planned = HistogramOpts::new("hns_plan_writes", "Number of writes in the plan of a namespace.");
        let sizes = [vec![0.0], exponential_buckets(1.0, 4.0, 8)?].concat();
        let metrics = Self {
            writes: IntCounterVec::new(writes, &["action", "outcome"])?,
            durations: HistogramVec::new(durations.buckets(WRITE_SECONDS.to_vec()), &["action"])?,
            planned: Histogram::with_opts(planned.buckets(sizes))?,
        };
        registry.register(Box::new(metrics.writes.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.planned.clone()))?;
        Ok(metrics)
    }

    #[expect(clippy::cast_precision_loss, reason = "plans are small")]
    pub(crate) fn planned(&self, writes: usize) {
        self.planned.observe(writes as f64);
    }

    pub(crate) fn written(&self, action: &str, outcome: &Outcome, duration: Duration) {
        self.writes.with_label_values(&[action, outcome.label()]).inc();
        self.durations.with_label_values(&[action]).observe(duration.as_secs_f64());
    }
}

/// The outcomes of events.
#[derive(Clone, Debug)]
pub(crate) struct EventMetrics {
    events: IntCounterVec,
}

impl EventMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let events = Opts::new(
            "hns_events_total",
            "Events by outcome: written, failed (the API server did not accept it), or dropped (the queue was full).",
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

/// The length of the queue at each scrape.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    queue: Queue,
    depth: IntGauge,
}

impl QueueMetrics {
    pub(crate) fn register(registry: &Registry, queue: Queue) -> prometheus::Result<()> {
        let depth = IntGauge::new("hns_queue_depth", "Namespaces that wait for a plan.")?;
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
