//! Flags for the webhook's certificate.

use std::time::Duration;

use clap::Args;
use hns_api::names;

use super::values;

/// Flags that both binaries have.
#[derive(Clone, Debug, Args)]
pub struct CertificateArgs {
    /// Have the controller make the webhook's certificate and keep it in a Secret, which the webhook reads through the API;
    /// with `false`, others provide it in `--cert-dir`, and the `caBundle` of the registrations
    #[arg(long)]
    pub enable_internal_cert_management: bool,

    /// Secret, in the program's own namespace, with the webhook's certificate
    #[arg(long, value_name = "NAME", default_value = names::WEBHOOK_CERTIFICATE_SECRET, value_parser = values::object_name)]
    pub cert_secret_name: String,
}

/// Flags of the binary that makes certificates.
#[derive(Clone, Debug, Args)]
pub struct IssuerArgs {
    /// Service in front of the webhook, in the program's own namespace, that the certificate is made for
    #[arg(long, value_name = "NAME", default_value = names::WEBHOOK_SERVICE, value_parser = values::object_name)]
    pub webhook_service_name: String,

    /// How long a certificate of the webhook is valid; a new one is made when a third of that is left
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = values::long_duration)]
    pub cert_validity: Duration,

    /// How long a former certificate stays in the registrations beside the new one: longer than any replica of the webhook may be
    /// cut off from the API server. With `0s`, as after a leak of the key, it is removed at once
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::long_duration)]
    pub cert_overlap: Duration,
}

impl IssuerArgs {
    /// # Errors
    /// A certificate would have to be replaced as soon as it is made.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.cert_validity.is_zero(), "--cert-validity must not be 0");
        Ok(())
    }
}
