//! Feeds a forest from a cluster: requests to the API server, watches, conversion of API objects to facts, and the
//! configured kinds.
//!
//! It applies no rule of the hierarchy; `hns-webhook`, `hns-controller` and `kubectl-hns` build on it.

pub mod access_review;
pub mod api;
pub mod api_object;
pub mod configured_kinds;
pub mod error_text;
pub mod feed;
pub mod handle;
pub mod ingest;
pub mod metrics;
pub mod namings;
pub mod objects;
pub mod quota_ledger;
pub mod quota_rights;
pub mod readiness;
pub mod settings;
pub mod stored;

/// Makes ring the TLS provider of this process. A second call has no effect.
pub fn install_tls_provider() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
