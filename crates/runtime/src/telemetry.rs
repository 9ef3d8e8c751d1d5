//! Logs on standard error: one line per event, as JSON or as text.

mod json;

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, util::SubscriberInitExt as _};

use crate::{args::LogFormat, process::Program};

/// Crates that log every connection at debug level. Operators need only their warnings.
const QUIET: &[&str] = &["hyper", "hyper_util", "kube_client", "rustls", "tokio_rustls", "tower"];

/// Sends logs to standard error, and panics into the log.
///
/// The level is info, or debug if `debug`. The environment variable `RUST_LOG`, if set and not empty, overrides both.
///
/// # Errors
/// `RUST_LOG` cannot be read as a filter, or logging was set up before.
pub fn init(format: LogFormat, debug: bool) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
            .map_err(|error| anyhow::anyhow!("RUST_LOG={directives}: {error}"))?,
        _ => EnvFilter::try_new(directives(debug))?,
    };
    let lines = fmt::Subscriber::builder().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Json => {
            lines
                .fmt_fields(fmt::format::JsonFields::new())
                .event_format(json::JsonLine)
                .finish()
                .try_init()?;
        }
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
    }
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(
            location = panic.location().map(tracing::field::display),
            reason = panic_message(panic.payload()),
            "panic"
        );
    }));
    Ok(())
}

/// The message of a panic. [`std::panic::PanicHookInfo::payload`] and a caught panic have the same form.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn directives(debug: bool) -> String {
    let (level, quiet) = if debug { ("debug", "info") } else { ("info", "warn") };
    let exceptions = QUIET.iter().map(|name| format!("{name}={quiet}"));
    let directives: Vec<_> = std::iter::once(level.to_owned()).chain(exceptions).collect();
    directives.join(",")
}

/// The first line of every log: the program and its settings.
pub fn log_start(program: Program, settings: &str) {
    tracing::info!(
        program = program.name,
        version = program.version,
        pid = std::process::id(),
        settings,
        "starting"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_can_be_read() {
        for debug in [false, true] {
            EnvFilter::try_new(directives(debug)).unwrap();
        }
    }
}
