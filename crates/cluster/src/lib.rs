//! What feeds a forest from a cluster: requests to the API server, watches, API objects as facts, the configured kinds.
//!
//! Knows how the API server is asked and what its answers mean; applies no rule of the hierarchy.

pub mod access_review;
pub mod api;
pub mod api_object;
pub mod configured_kinds;
pub mod feed;
pub mod handle;
pub mod ingest;
pub mod metrics;
pub mod objects;
pub mod readiness;

/// Makes ring the TLS provider of everything in this process. A second call changes nothing.
pub fn install_tls_provider() {
    // An error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
