//! `kubectl hns`: the hierarchy from the command line, word for word what HNC's plugin printed, and more of it.
//!
//! Every command is a file under `commands`: arguments, a thin shell of requests, and what they come to. Whatever turns data into
//! text (`picture`, `table`, `age`, and the `text` functions of the commands) is pure. The plugin decides nothing about
//! the hierarchy itself; it asks the API server, and a [`forest::Forest`] built from lists.

mod age;
pub mod cli;
mod commands;
mod configured;
mod connection;
mod copies;
mod evidence;
mod failure;
mod flags;
mod foresight;
mod format;
mod installation;
mod lines;
mod loader;
mod picture;
mod published;
mod rights;
mod session;
mod subject;
mod table;
mod terminal;
mod wait;
mod warnings;
mod whereabouts;

pub use commands::{foretell, run};
pub use failure::Failure;
pub use terminal::Terminal;
