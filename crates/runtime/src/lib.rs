//! How an hns binary starts and lives.
//!
//! Flags, logging, the connection to the API server, TLS, servers, readiness, shutdown, leadership.
//! Nothing in this crate knows a rule of the hierarchy or judges a request.

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
