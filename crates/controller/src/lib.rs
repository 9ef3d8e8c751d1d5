//! `hns-controller` makes the cluster match the hierarchy.
//!
//! It watches the cluster into a forest, plans one namespace at a time, and executes the plans. The leader also maintains the
//! webhook's certificate and registrations. The rules are in the crate `forest`.

pub mod args;
pub mod registrations;
pub mod run;

mod accurate_rights;
mod apply;
mod certificates;
mod configuration;
mod conversion;
mod definitions;
mod dialect;
mod events;
mod execute;
#[cfg(test)]
mod fake;
mod finalizer_cleanup;
mod generated;
mod guard;
mod lead;
mod metrics;
mod namings;
mod owner;
mod permission;
mod queue;
mod quotas;
mod settings;
mod status_debouncer;
mod stored;
mod structure_sync;
