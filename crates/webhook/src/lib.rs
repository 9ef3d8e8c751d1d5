//! `hns-webhook`: may this happen?
//!
//! Takes an `AdmissionReview`, has the forest's rules judge it, asks the API server what they want to know, and answers.
//! Holds no rule itself and writes nothing to the cluster but access reviews and what settings it runs with.

pub mod args;
pub mod router;
pub mod run;

mod body;
mod decode;
mod judge;
mod metrics;
mod pending;
mod questions;
mod respond;
mod together;
mod webhooks;

pub use body::Bodies;
pub use metrics::AdmissionMetrics;
pub use pending::Pending;
pub use router::{App, router};
