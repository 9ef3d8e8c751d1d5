//! `hns-controller`: what should exist, and making it so.
//!
//! Watches the cluster into a forest, has it planned namespace by namespace, and carries the plans out. Judges no request
//! and holds no rule of its own.

pub mod args;
pub mod keep;
pub mod registrations;
pub mod run;

mod apply;
mod catch_up;
mod certificates;
mod configuration;
mod definitions;
mod early;
mod events;
mod execute;
#[cfg(test)]
mod fake;
mod farewell;
mod guard;
mod metrics;
mod permission;
mod queue;
