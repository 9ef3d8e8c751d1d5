//! The flags of a binary and their help.
//!
//! Names and defaults are HNC's where both have a flag; every syntax that Go's `flag` package accepts is accepted here. This
//! module only parses.

mod certificates;
mod go;
mod shared;
mod values;

#[cfg(test)]
mod tests;

use std::{
    any::TypeId,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::ensure;
use clap::builder::{NonEmptyStringValueParser, Resettable, StyledStr};
use clap::{Arg, ArgAction, Args, Command, Parser, ValueEnum};

pub use self::{
    certificates::{CertificateArgs, IssuerArgs},
    go::IgnoredFlags,
    shared::SharedArgs,
    values::port,
};
use crate::{lease::Timing, listen::ListenAddress};

/// Flags that both binaries have.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// Kubeconfig file of the cluster; without it `$KUBECONFIG`, then the pod's own service
    /// account, then `~/.kube/config`
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    kubeconfig: Option<PathBuf>,

    /// Namespace that this program runs in; it is always excluded from every hierarchy
    #[arg(long, value_name = "NAMESPACE", default_value = "hnc-system", value_parser = values::namespace)]
    pub namespace: String,

    /// Where to serve Prometheus metrics over plain HTTP; `:8080` means all interfaces, `0` or
    /// nothing turns them off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = ListenAddress::parse)]
    pub metrics_addr: ListenAddress,

    /// Where to serve /healthz and /readyz over plain HTTP; `0` or nothing turns them off
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = ListenAddress::parse)]
    pub health_probe_bind_address: ListenAddress,

    /// Log at debug level; the environment variable `RUST_LOG`, if set, decides instead
    #[arg(long)]
    pub debug_logs: bool,

    /// Requests to the API server per second, at most; 0 or a negative number leaves the limit to the
    /// API server's own priority and fairness
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = values::requests_per_second)]
    pub apiserver_qps_throttle: u32,

    /// How log lines are written to standard error
    #[arg(long, value_name = "FORMAT", default_value = "json", value_enum)]
    pub log_format: LogFormat,

    /// Where the webhook's certificate comes from.
    #[command(flatten)]
    pub certificates: CertificateArgs,
}

impl CommonArgs {
    /// The kubeconfig file of the flag. An empty value counts as none, as in HNC.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, with HNC's field names.
    Json,
    /// One line of text per event, for people.
    Text,
}

/// Flags of a binary that serves webhooks.
#[derive(Clone, Debug, Args)]
pub struct WebhookServerArgs {
    /// Port of the webhook server (HTTPS)
    #[arg(long, value_name = "PORT", default_value = "443", value_parser = values::port)]
    pub webhook_server_port: u16,

    /// Address of the webhook server, without port; all interfaces if empty
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true, value_parser = values::host)]
    webhook_server_bind_address: String,

    /// Directory with the serving certificate, unless it is kept internally: tls.crt (a chain is fine), tls.key and ca.crt
    #[arg(long, value_name = "DIRECTORY", default_value = "/tmp/k8s-webhook-server/serving-certs")]
    pub cert_dir: PathBuf,

    /// File with the authorities (PEM) that sign client certificates of API servers: only who presents such a certificate may
    /// send reviews. Needs --client-allowed-name. The file is read again when it changes
    #[arg(long, value_name = "FILE", requires = "client_allowed_names")]
    pub client_ca_file: Option<PathBuf>,

    /// Common name or DNS name of a client certificate that reviews are accepted with; may be given several times. Needs
    /// --client-ca-file
    #[arg(long = "client-allowed-name", value_name = "NAME", requires = "client_ca_file",
          value_parser = NonEmptyStringValueParser::new())]
    pub client_allowed_names: Vec<String>,

    /// After SIGTERM: how long to go on accepting connections while already unready, so that load
    /// balancers notice first
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::duration)]
    pub shutdown_delay: Duration,

    /// After SIGTERM: when everything has ended at the latest, the delay included; keep it below
    /// the pod's termination grace period
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = values::duration)]
    pub shutdown_timeout: Duration,
}

impl WebhookServerArgs {
    /// The address of the webhook server.
    pub fn listen_address(&self) -> ListenAddress {
        ListenAddress::new(&self.webhook_server_bind_address, self.webhook_server_port)
    }
}

/// Flags of a binary with leader election.
#[derive(Clone, Debug, Args)]
pub struct LeaderElectionArgs {
    /// Name of the Lease, in the program's own namespace, whose holder acts
    #[arg(long, value_name = "NAME", default_value = "hns-controller", value_parser = values::object_name)]
    pub leader_election_id: String,

    /// How long others respect a lease that is not renewed; whole seconds
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the holder may act after it last began a renewal that succeeded; shorter than the lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub leader_elect_renew_deadline: Duration,

    /// How often the holder renews the lease, and the others look; shorter than the holder's deadline
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub leader_elect_retry_period: Duration,
}

impl LeaderElectionArgs {
    /// The times of the election.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn timing(&self) -> anyhow::Result<Timing> {
        let lease_duration = self.leader_elect_lease_duration;
        let renew_deadline = self.leader_elect_renew_deadline;
        let retry_period = self.leader_elect_retry_period;
        let [lease, renew, retry] = [lease_duration, renew_deadline, retry_period].map(values::shown);
        ensure!(
            lease_duration.subsec_nanos() == 0,
            "--leader-elect-lease-duration={lease} must be whole seconds"
        );
        ensure!(
            renew_deadline < lease_duration,
            "--leader-elect-renew-deadline={renew} must be shorter than \
             --leader-elect-lease-duration={lease}"
        );
        ensure!(
            retry_period < renew_deadline,
            "--leader-elect-retry-period={retry} must be shorter than \
             --leader-elect-renew-deadline={renew}"
        );
        ensure!(!retry_period.is_zero(), "--leader-elect-retry-period must be longer than 0");
        Ok(Timing { lease_duration, renew_deadline, retry_period })
    }
}

/// The flags of a program.
pub trait ProgramArgs: Parser + AsRef<CommonArgs> {
    /// # Errors
    /// Two flags contradict each other.
    fn check(&self) -> anyhow::Result<()>;
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Parsed<T> {
    /// The checked values.
    pub args: T,
    /// Every flag in effect, defaults included, as a command line for the log.
    pub settings: String,
    /// Flags of HNC that were given and have no effect.
    pub ignored: IgnoredFlags,
}

/// Why the program does not run.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Stop {
    /// The command line is wrong; one line that names the flag.
    #[error("{0}")]
    Usage(String),
    /// `--help` or `--version` was given; its text.
    #[error("{0}")]
    Text(String),
}

/// Parses a command line, whose first word is the program's name, in clap's or in Go's syntax.
///
/// If a flag that takes one value is given several times, the last one counts, as in Go.
///
/// # Errors
/// [`Stop::Usage`] for an unknown flag, a missing or wrong value, or an argument that belongs to no flag; [`Stop::Text`] for
/// `--help` and `--version`.
pub fn parse_from<T: Parser>(
    words: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<Parsed<T>, Stop> {
    let mut command = with_booleans(without_code_marks(T::command())).args_override_self(true);
    command.build();
    let (words, ignored) = go::translate(&command, words)?;
    let matches = command.try_get_matches_from_mut(words).map_err(|error| stop(&error))?;
    let args = T::from_arg_matches(&matches).map_err(|error| stop(&error))?;
    let settings = go::effective(&command, &matches);
    Ok(Parsed { args, settings, ignored })
}

/// The command with help in plain text: without the marks of Markdown around single words. Commands of several words keep them.
#[must_use]
pub fn without_code_marks(command: Command) -> Command {
    let text = |text: &StyledStr| StyledStr::from(unmarked(&text.to_string()));
    let about = command.get_about().map(text);
    let long_about = command.get_long_about().map(text);
    let command = command.about(Resettable::from(about)).long_about(Resettable::from(long_about));
    command
        .mut_args(|arg| {
            let (help, long_help) = (arg.get_help().map(text), arg.get_long_help().map(text));
            arg.help(Resettable::from(help)).long_help(Resettable::from(long_help))
        })
        .mut_subcommands(without_code_marks)
}

/// The command with flags for booleans as in Go: `--flag`, `--flag=false`, `--flag=1`, and never the next word. This is for all flags
/// of the type `bool`, in all subcommands, whose default is `false` if they have no other one.
#[must_use]
pub fn with_booleans(command: Command) -> Command {
    let is_boolean = |arg: &Arg| arg.get_value_parser().type_id() == TypeId::of::<bool>();
    command
        .mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => boolean(arg).default_value("false").hide_default_value(true),
            ArgAction::Set if is_boolean(&arg) => boolean(arg),
            _ => arg,
        })
        .mut_subcommands(with_booleans)
}

fn boolean(arg: Arg) -> Arg {
    let arg = arg.action(ArgAction::Set).value_name("BOOL").value_parser(values::boolean);
    arg.num_args(0..=1).require_equals(true).default_missing_value("true")
}

fn unmarked(text: &str) -> String {
    let piece = |(at, piece): (usize, &str)| {
        if piece.contains(' ') && at % 2 == 1 { format!("`{piece}`") } else { piece.to_owned() }
    };
    text.split('`').enumerate().map(piece).collect()
}

/// clap's messages have several paragraphs; a log line needs one.
fn stop(error: &clap::Error) -> Stop {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Stop::Text(text);
    }
    let reason = text.split("\n\n").next().unwrap_or_default();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    Stop::Usage(reason.trim_start_matches("error: ").to_owned())
}
