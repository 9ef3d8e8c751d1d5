//! Whether this replica is the leader: the same check as before a write.

use hns_runtime::lease::Leadership;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};

/// Checked at each scrape.
#[derive(Debug)]
pub(crate) struct LeaderMetrics {
    leadership: Leadership,
    leads: IntGauge,
}

impl LeaderMetrics {
    pub(crate) fn register(registry: &Registry, leadership: Leadership) -> prometheus::Result<()> {
        let leads = IntGauge::new("hns_leader", "1 if this replica holds the lease, 0 otherwise.")?;
        registry.register(Box::new(Self { leadership, leads }))
    }
}

impl Collector for LeaderMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.leads.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.leads.set(self.leadership.is_leader().into());
        self.leads.collect()
    }
}
