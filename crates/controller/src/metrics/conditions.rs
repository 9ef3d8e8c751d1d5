//! The number of namespaces with each condition, with HNC's metric name and labels.

use std::collections::HashMap;

use forest::{Forest, Reason};
use hns_cluster::handle::ForestHandle;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

/// Counted at each scrape.
#[derive(Debug)]
pub(crate) struct ConditionMetrics {
    forest: ForestHandle,
    namespaces: IntGaugeVec,
}

impl ConditionMetrics {
    pub(crate) fn register(registry: &Registry, forest: ForestHandle) -> prometheus::Result<()> {
        let opts = Opts::new("hnc_namespace_conditions", "Namespaces with a condition, by type and reason.");
        let namespaces = IntGaugeVec::new(opts, &["Condition", "Reason"])?;
        registry.register(Box::new(Self { forest, namespaces }))
    }
}

impl Collector for ConditionMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.namespaces.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (reason, count) in self.forest.read(count) {
            let labels = [reason.condition_type(), reason.as_str()];
            self.namespaces.with_label_values(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.namespaces.collect()
    }
}

/// The number of namespaces with each reason, including 0. Other reasons in a status are not counted, because each would create a time
/// series.
fn count(forest: &Forest) -> HashMap<Reason, usize> {
    let mut counts: HashMap<Reason, usize> = Reason::ALL.into_iter().map(|reason| (reason, 0)).collect();
    for reason in forest.shown_conditions().filter_map(Reason::of) {
        *counts.entry(reason).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::hnc;
    use forest::{Condition, Fact, HierarchyFact, HierarchyStatus, NamespaceFact, Settings, Version};
    use hns_cluster::handle::ForestWriter;
    use prometheus::TextEncoder;

    use super::*;

    /// Does not compile when a reason is missing here. The test fails when it is missing in the list.
    fn place(reason: Reason) -> usize {
        match reason {
            Reason::IllegalParent => 0,
            Reason::ParentMissing => 1,
            Reason::InCycle => 2,
            Reason::AncestorHaltActivities => 3,
            Reason::Unreadable => 4,
            Reason::DeletingCRD => 5,
            Reason::SubnamespaceAnchorMissing => 6,
            Reason::IllegalManagedLabel => 7,
            Reason::IllegalManagedAnnotation => 8,
            Reason::OverriddenByAncestor => 9,
            Reason::CannotPropagateObject => 10,
            Reason::QuotaNotInForce => 11,
        }
    }

    #[test]
    fn every_reason_is_listed() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(place(reason), at);
        }
    }

    fn shows(namespace: &str, conditions: Vec<Condition>) -> [Fact; 2] {
        let version = Version { uid: namespace.into(), resource_version: "1".into() };
        let name = forest::Name::from(namespace);
        let seen = NamespaceFact { name: name.clone(), version: version.clone(), ..NamespaceFact::default() };
        let status = HierarchyStatus { conditions, ..HierarchyStatus::default() };
        let hierarchy = HierarchyFact { version, status, ..HierarchyFact::default() };
        [Fact::Namespace(seen), Fact::Hnc(hnc::Fact::Hierarchy(name, hierarchy))]
    }

    #[test]
    fn namespaces_are_counted_and_unknown_reasons_create_no_series() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let (writer, forest) = ForestWriter::new(Forest::new(Arc::new(settings), vec![]), Box::new(|_| {}));
        let missing = || Condition::new(Reason::ParentMissing, "");
        let foreign = Condition { reason: "Mine".into(), ..missing() };
        writer.tell(shows("a", vec![missing(), Condition::new(Reason::IllegalManagedLabel, "")]));
        writer.tell(shows("b", vec![missing()]));
        writer.tell(shows("c", vec![foreign]));
        let registry = Registry::new();
        ConditionMetrics::register(&registry, forest).unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let line = |condition: &str, reason: &str, count: u32| {
            let line = format!(
                "hnc_namespace_conditions{{Condition=\"{condition}\",Reason=\"{reason}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        };
        line("ActivitiesHalted", "ParentMissing", 2);
        line("BadConfiguration", "IllegalManagedLabel", 1);
        line("ActivitiesHalted", "InCycle", 0);
        assert_eq!(text.matches("\nhnc_namespace_conditions{").count(), Reason::ALL.len());
    }
}
