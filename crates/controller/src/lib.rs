//! `hns-controller`: what should exist, and making it so.
//!
//! Watches the cluster into a forest, has it planned namespace by namespace, and carries the plans out. Judges no request
//! and holds no rule of its own.

pub mod args;
pub mod keep;
pub mod registrations;
pub mod run;

mod apply;
mod certificates;
mod configuration;
mod definitions;
mod events;
mod execute;
#[cfg(test)]
mod fake;
mod finalizer_cleanup;
mod guard;
mod metrics;
mod permission;
mod queue;
mod status_debouncer;
mod structure_sync;
