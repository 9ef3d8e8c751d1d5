//! What every part of a running program shares.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hns_cluster::readiness::Readiness;
use prometheus::Registry;

use crate::shutdown::Shutdown;

/// The identity of a binary; its `main` fills it from Cargo's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name, as in its user agent: `hns-webhook`.
    pub name: &'static str,
    /// The version, as in `--version`.
    pub version: &'static str,
    /// The number of worker threads; by default the number of processors.
    pub threads: Option<usize>,
}

/// What every part of a running program shares.
#[derive(Clone, Debug)]
pub struct Process {
    /// The program.
    pub program: Program,
    /// The shutdown of the process.
    pub shutdown: Shutdown,
    /// Whether it is ready. Declare conditions before [`Process::serve_admin`].
    pub readiness: Readiness,
    /// The registry of its metrics.
    pub registry: Registry,
    /// The part that uses the settings in force.
    pub current: Arc<ArcSwap<Part>>,
}

/// The part of a process that uses the current settings: it is replaced as a whole when settings change.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Whether it is ready.
    pub readiness: Readiness,
    /// The registry of its metrics.
    pub registry: Registry,
}

impl Part {
    /// The part of a process that does not know its settings yet. It is not ready.
    pub fn waiting() -> Self {
        let part = Self::default();
        part.readiness.condition("cluster", "nothing is read before the settings are known");
        part
    }
}
