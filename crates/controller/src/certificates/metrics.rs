//! When the certificates expire, as the Secrets have them.

use prometheus::{IntGaugeVec, Opts, Registry};

use super::decide::{CERTIFICATE, Data};
use super::x509::Certificate;

/// Shown by the replica that keeps the certificates, and only by it.
#[derive(Clone, Debug)]
pub(crate) struct CertificateMetrics {
    not_after: IntGaugeVec,
}

impl CertificateMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let not_after = Opts::new(
            "hns_certificate_not_after_seconds",
            "When the certificate in the Secret of the authority or of the webhook expires, in seconds since 1970; 0 if it \
             cannot be read.",
        );
        let not_after = IntGaugeVec::new(not_after, &["certificate"])?;
        registry.register(Box::new(not_after.clone()))?;
        Ok(Self { not_after })
    }

    pub(super) fn show(&self, authority: Option<&Data>, serving: Option<&Data>) {
        for (name, data) in [("authority", authority), ("webhook", serving)] {
            let text = data.and_then(|data| data.get(CERTIFICATE));
            let first = text.and_then(|text| Certificate::all(&text.0).into_iter().next());
            self.not_after.with_label_values(&[name]).set(first.map_or(0, |it| it.not_after));
        }
    }
}
