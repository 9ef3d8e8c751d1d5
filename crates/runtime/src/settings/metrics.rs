//! Which settings a process runs with, and whether those that are published are the same. Counts nothing.

use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};

use super::{Component, Document};

/// One series of each, and one for each component.
#[derive(Debug, Clone)]
pub(super) struct SettingsMetrics {
    differ: IntGaugeVec,
}

impl SettingsMetrics {
    pub(super) fn register(registry: &Registry, own: &Document) -> prometheus::Result<Self> {
        let about = Opts::new(
            "hns_settings_info",
            "Always 1; the label is the digest of the settings that all replicas of both binaries must have in common.",
        );
        let info = IntGauge::with_opts(about.const_label("digest", own.common.digest()))?;
        info.set(1);
        registry.register(Box::new(info))?;
        let differ = Opts::new(
            "hns_settings_differ",
            "Whether the settings that a component has published are others than this process's own.",
        );
        let differ = IntGaugeVec::new(differ, &["published_by"])?;
        registry.register(Box::new(differ.clone()))?;
        let metrics = Self { differ };
        for component in [Component::Controller, Component::Webhook] {
            metrics.seen(component, own, None);
        }
        Ok(metrics)
    }

    pub(super) fn seen(&self, component: Component, own: &Document, published: Option<&Document>) {
        let differs = published.is_some_and(|it| it.common != own.common);
        self.differ.with_label_values(&[&component.to_string()]).set(differs.into());
    }
}
