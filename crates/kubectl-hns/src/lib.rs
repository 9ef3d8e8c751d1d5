//! `kubectl hns`: the hierarchy from the command line, word for word what HNC's plugin printed, and more of it.
//!
//! Every command is a file under `commands`: arguments, a thin shell of requests, and what they come to. Whatever turns data into
//! text (`picture`, `table`, `age`, and the `text` functions of the commands) is pure. The plugin decides nothing about
//! the hierarchy itself; it asks the API server, and a [`forest::Forest`] built from lists.

mod age;
pub mod cli;
mod cluster_preview;
mod commands;
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
mod picture;
mod published;
mod session;
mod structure;
mod table;
mod terminal;
mod user_rights;
mod wait;
mod warnings;

pub use commands::{plan_json, run};
pub use failure::Failure;
pub use terminal::Terminal;
