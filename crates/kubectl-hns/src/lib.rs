//! `kubectl hns`: shows and changes the hierarchy from the command line, with the output of HNC's plugin and further
//! commands. Called as `kubectl-accurate`, the same binary is `kubectl accurate`, for the API of Accurate.
//!
//! Every command is a file under `commands`: arguments, requests, and a pure result. The modules that make text from
//! data (`picture`, `table`, `age`, and the `text` functions of the commands) are pure. The plugin applies no rules of
//! its own: it asks the API server, or a [`forest::Forest`] that it builds from lists.

mod accurate_trees;
mod age;
pub mod cli;
mod cluster_preview;
mod commands;
mod complete;
mod configured_kinds;
mod connection;
mod copies;
mod failure;
mod flags;
mod format;
mod installation;
mod lines;
mod loader;
mod object_argument;
mod object_states;
mod optimistic;
mod picture;
mod program;
mod published;
mod quotas;
mod request_log;
mod session;
mod structure;
mod table;
mod terminal;
mod user_rights;
mod wait;
mod warnings;

pub use commands::{plan_json, run};
pub use complete::answer as completion;
pub use failure::Failure;
pub use program::Program;
pub use terminal::Terminal;
