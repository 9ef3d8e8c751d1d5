//! `-v`: prints the requests to the API server on standard error. The client library describes each one as a span.

use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

/// The level from which kubectl prints requests.
const REQUESTS: u8 = 6;
/// The level from which kubectl prints headers and bodies; here, the steps of each request.
const STEPS: u8 = 8;

/// Starts printing requests, if the level is high enough.
pub(crate) fn start(level: u8) {
    if level < REQUESTS {
        return;
    }
    let is_wanted = filter_fn(move |metadata| {
        metadata.target().starts_with("kube_client") && (metadata.is_span() || level >= STEPS)
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_span_events(FmtSpan::CLOSE);
    // There is one subscriber already if another caller in this process has started it.
    let _ = tracing_subscriber::registry().with(lines.with_filter(is_wanted)).try_init();
}
