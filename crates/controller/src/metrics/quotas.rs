//! The limits and the usage of hierarchical quotas, as in their status. The labels are the names of quotas: their users ask for them.

use hns_cluster::handle::ForestHandle;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry};

const LABELS: [&str; 3] = ["namespace", "quota", "resource"];

/// Read at each scrape.
#[derive(Debug)]
pub(crate) struct QuotaMetrics {
    forest: ForestHandle,
    limits: GaugeVec,
    used: GaugeVec,
}

impl QuotaMetrics {
    pub(crate) fn register(registry: &Registry, forest: ForestHandle) -> prometheus::Result<()> {
        let gauge = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &LABELS);
        let limits = gauge("hns_quota_limit", "Limits of hierarchical quotas, by resource.")?;
        let used = gauge(
            "hns_quota_used",
            "What the namespace of a hierarchical quota and all namespaces below use, by resource.",
        )?;
        registry.register(Box::new(Self { forest, limits, used }))
    }
}

impl Collector for QuotaMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.limits.desc(), self.used.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Deleted quotas must not stay.
        self.limits.reset();
        self.used.reset();
        self.forest.read(|forest| {
            for (namespace, name, status) in forest.quota_statuses() {
                for (resource, limit) in &status.hard {
                    let labels = [&**namespace, &**name, &**resource];
                    let used = status.used.get(resource).copied().unwrap_or_default();
                    self.limits.with_label_values(&labels).set(limit.as_f64());
                    self.used.with_label_values(&labels).set(used.as_f64());
                }
            }
        });
        [self.limits.collect(), self.used.collect()].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::hnc::quota::{QuotaFact, QuotaStatus};
    use forest::{Fact, Forest, Settings, Version, hnc};
    use hns_cluster::handle::ForestWriter;
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn the_status_of_each_quota_is_exported_until_it_is_deleted() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let (writer, forest) = ForestWriter::new(Forest::new(Arc::new(settings), vec![]), Box::new(|_| {}));
        let registry = Registry::new();
        QuotaMetrics::register(&registry, forest).unwrap();
        let exported = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let status = QuotaStatus {
            hard: [("cpu".into(), "2".parse().unwrap())].into(),
            used: [("cpu".into(), "1500m".parse().unwrap())].into(),
            ..QuotaStatus::default()
        };
        let version = Version { uid: "1".into(), resource_version: "1".into() };
        let quota = QuotaFact { name: "q".into(), version, status, ..QuotaFact::default() };
        writer.tell([Fact::Hnc(hnc::Fact::Quota("a".into(), quota))]);
        let labels = "{namespace=\"a\",quota=\"q\",resource=\"cpu\"}";
        for line in [format!("hns_quota_limit{labels} 2"), format!("hns_quota_used{labels} 1.5")] {
            assert!(exported().contains(&line), "{}", exported());
        }
        writer.tell([Fact::Hnc(hnc::Fact::QuotaGone("a".into(), "q".into(), "1".into()))]);
        assert!(!exported().contains("hns_quota"));
    }
}
