//! When the certificate in the Secret expires.

use prometheus::{IntGauge, Registry};

use super::decide::{CERTIFICATE, Data};
use super::x509::Certificate;

/// Only the leader exports it.
#[derive(Clone, Debug)]
pub(crate) struct CertificateMetrics {
    not_after: IntGauge,
}

impl CertificateMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let not_after = IntGauge::new(
            "hns_certificate_not_after_seconds",
            "Expiry of the certificate in the webhook's Secret, in seconds since 1970; 0 if it cannot be read.",
        )?;
        registry.register(Box::new(not_after.clone()))?;
        Ok(Self { not_after })
    }

    pub(super) fn show(&self, serving: Option<&Data>) {
        let text = serving.and_then(|data| data.get(CERTIFICATE));
        let first = text.and_then(|text| Certificate::all(&text.0).into_iter().next());
        self.not_after.set(first.map_or(0, |it| it.not_after));
    }
}
