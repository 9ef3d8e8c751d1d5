//! The flags of `hns-webhook`. Decides nothing.

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;
use hns_api::names;
use hns_runtime::args::{CommonArgs, ProgramArgs, WebhookServerArgs};

/// Admission for hierarchical namespaces: judges who may change what, and fails closed.
#[derive(Debug, Clone, Parser)]
#[command(name = "hns-webhook", version)]
pub struct Args {
    /// Flags that both binaries have.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the HTTPS server.
    #[command(flatten)]
    pub server: WebhookServerArgs,

    /// Service account of hns-controller, in the program's own namespace; its requests, and nobody else's, are not judged
    #[arg(long, value_name = "NAME", default_value = names::CONTROLLER_SERVICE_ACCOUNT,
          value_parser = NonEmptyStringValueParser::new())]
    pub controller_service_account: String,
}

impl ProgramArgs for Args {
    fn check(&self) -> anyhow::Result<()> {
        let WebhookServerArgs { shutdown_delay: delay, shutdown_timeout: timeout, .. } = &self.server;
        anyhow::ensure!(
            delay <= timeout,
            "--shutdown-delay={delay:?} is longer than --shutdown-timeout={timeout:?}, which includes it; make the delay shorter, or \
             the timeout longer"
        );
        Ok(())
    }
}

impl Args {
    /// The user name under which the controller's requests arrive.
    pub fn controller(&self) -> String {
        names::service_account_user(&self.common.namespace, &self.controller_service_account)
    }

    /// The program's own user name in the cluster, if it is installed as in the manifests.
    pub fn webhook(&self) -> String {
        names::service_account_user(&self.common.namespace, names::WEBHOOK_SERVICE_ACCOUNT)
    }
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shutdown_includes_its_delay() {
        for (timeout, delay, fits) in [("8s", "3s", true), ("5s", "5s", true), ("1s", "5s", false)] {
            let args = ["hns-webhook", "--shutdown-timeout", timeout, "--shutdown-delay", delay];
            assert_eq!(Args::try_parse_from(args).unwrap().check().is_ok(), fits, "{timeout} {delay}");
        }
    }
}
