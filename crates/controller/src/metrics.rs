//! What `hns-controller` counts. Labels take their values from fixed sets only.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use crate::apply::Outcome;
use crate::queue::Queue;

/// Writes by kind and outcome.
#[derive(Clone, Debug)]
pub(crate) struct WriteMetrics {
    writes: IntCounterVec,
}

impl WriteMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new("hns_writes_total", "Writes to the cluster, by action and outcome.");
        let writes = IntCounterVec::new(opts, &["action", "outcome"])?;
        registry.register(Box::new(writes.clone()))?;
        Ok(Self { writes })
    }

    pub(crate) fn wrote(&self, action: &str, outcome: &Outcome) {
        self.writes.with_label_values(&[action, outcome.label()]).inc();
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
