//! `hns-webhook`: may this happen?
//!
//! Takes an `AdmissionReview`, has the forest's rules judge it, asks the API server what they need to know, and answers. It
//! holds no rule itself and writes nothing to the cluster but access reviews.

pub mod args;
pub mod router;
pub mod run;

mod body;
mod current;
mod decode;
mod in_flight;
mod judge;
mod metrics;
mod questions;
mod respond;
mod single_flight;
mod webhooks;

pub use body::Bodies;
pub use in_flight::InFlight;
pub use metrics::AdmissionMetrics;
pub use router::{App, router};
