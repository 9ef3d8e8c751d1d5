//! From `main` to a running program and back to an exit code.
//!
//! All binaries share this code. Each binary passes a function that does its work.

use std::{io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use prometheus::Registry;

use crate::{
    admin,
    args::{self, CommonArgs, Parsed, ProgramArgs, Stop},
    process::{Part, Process, Program},
    shutdown::Shutdown,
    telemetry,
};
use hns_cluster::{error_text::without_structures, readiness::Readiness};

impl Process {
    /// Serves probes and metrics, and makes the process unready as soon as its shutdown begins.
    ///
    /// # Errors
    /// An address cannot be listened on, or a metric's name is taken.
    pub async fn serve_admin(&self, args: &CommonArgs) -> anyhow::Result<()> {
        admin::register(&self.registry, self.program)?;
        admin::serve(args, self).await?;
        let Self { shutdown, readiness, .. } = self.clone();
        tokio::spawn(async move {
            shutdown.begun().await;
            readiness.shutting_down();
        });
        Ok(())
    }
}

/// Runs a binary from its command line to its exit code.
///
/// Parses the flags (a mistake is one line on standard error and exit code 2; `--help` and `--version` are 0), starts logging,
/// installs the TLS provider, starts the async runtime, and runs `run` with the flags. Success is exit code 0, an error one line
/// in the log and exit code 1. SIGTERM and SIGINT begin [`Process::shutdown`]; `run` must return then.
pub fn main<T, F>(program: Program, run: impl FnOnce(T, Process) -> F) -> ExitCode
where
    T: ProgramArgs,
    F: Future<Output = anyhow::Result<()>>,
{
    let parsed = match args::parse_from::<T>(std::env::args_os()).and_then(checked) {
        Ok(parsed) => parsed,
        Err(stop) => return say(program, &stop),
    };
    match start(program, parsed, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = without_structures(format!("{error:#}"), error.chain());
            // Logging may not be set up yet, or the filter may exclude errors.
            if tracing::enabled!(tracing::Level::ERROR) {
                tracing::error!(error, "ended by an error");
            } else {
                complain(program, &error);
            }
            ExitCode::FAILURE
        }
    }
}

fn checked<T: ProgramArgs>(parsed: Parsed<T>) -> Result<Parsed<T>, Stop> {
    match parsed.args.check() {
        Ok(()) => Ok(parsed),
        Err(wrong) => Err(Stop::Usage(format!("{wrong:#}"))),
    }
}

fn start<T, F>(program: Program, parsed: Parsed<T>, run: impl FnOnce(T, Process) -> F) -> anyhow::Result<()>
where
    T: AsRef<CommonArgs>,
    F: Future<Output = anyhow::Result<()>>,
{
    let Parsed { args, settings, ignored } = parsed;
    telemetry::init(args.as_ref().log_format, args.as_ref().debug_logs)?;
    telemetry::log_start(program, &settings);
    ignored.log();
    hns_cluster::install_tls_provider();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = program.threads {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build()?;
    let result = runtime.block_on(async {
        let process = Process {
            program,
            shutdown: Shutdown::on_signals()?,
            readiness: Readiness::new(),
            registry: Registry::new(),
            current: Arc::new(ArcSwap::from_pointee(Part::waiting())),
        };
        run(args, process).await
    });
    // A blocking read that hangs must not delay the end of the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    if result.is_ok() {
        tracing::info!("ended");
    }
    result
}

fn say(program: Program, stop: &Stop) -> ExitCode {
    match stop {
        Stop::Text(text) => {
            // An error means that the reader has closed the pipe.
            let _ = write!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Stop::Usage(line) => {
            complain(program, line);
            ExitCode::from(2)
        }
    }
}

fn complain(program: Program, line: &str) {
    // An error cannot be reported anywhere else.
    let _ = writeln!(std::io::stderr(), "{}: {line}", program.name);
}
