//! `hns-webhook`: is a request allowed?
//!
//! Takes an `AdmissionReview`, runs the forest's rules, asks the API server their questions, and responds. It contains no rule,
//! and writes nothing to the cluster but access reviews, the ledger of quotas, and the list of missing parents.

pub mod args;
pub mod router;
pub mod run;

mod body;
mod current;
mod decode;
mod in_flight;
mod judge;
mod metrics;
mod namings;
mod questions;
mod respond;
mod single_flight;
mod usage_ledger;
mod webhooks;

pub use body::Bodies;
pub use in_flight::InFlight;
pub use metrics::AdmissionMetrics;
pub use router::{App, router};
