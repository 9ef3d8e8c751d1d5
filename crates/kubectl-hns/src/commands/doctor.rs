//! doctor
use crate::session::Session;
use crate::{Failure, Terminal};
use clap::Args;
/// x
#[derive(Debug, Args)]
pub(crate) struct Arguments {}
pub(crate) async fn run(_: &Arguments, _: &Session, _: &Terminal) -> Result<(), Failure> {
    Ok(())
}
