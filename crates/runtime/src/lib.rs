//! How an hns binary starts, serves and ends.
//!
//! Flags, logging, the connection to the API server, TLS, servers, readiness, shutdown, leader election. This crate knows no rule
//! of the hierarchy and judges no request.

pub mod admin;
pub mod args;
pub mod client;
pub mod lease;
pub mod listen;
pub mod process;
pub mod serve;
pub mod shutdown;
pub mod start;
pub mod telemetry;
pub mod tls;
