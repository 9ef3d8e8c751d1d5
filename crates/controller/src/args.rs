//! The flags of `hns-controller`. Decides nothing.

use clap::Parser;
use hns_runtime::args::{CommonArgs, LeaderElectionArgs};

/// Keeps tree labels, status and propagated copies as the hierarchy says they should be.
#[derive(Debug, Clone, Parser)]
#[command(name = "hns-controller", version)]
pub struct Args {
    /// Flags that both binaries have.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}
