//! Probes and metrics: `/healthz`, `/readyz`, `/metrics`.
//!
//! Plain HTTP/1.1, read-only, answered from memory. Responses contain names of components and numbers, never objects.

mod process;

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus::{Gauge, Opts, Registry, TextEncoder};
use tokio::net::TcpListener;

use crate::{
    args::CommonArgs,
    process::{Part, Process, Program},
    serve::{Grace, Limits, Server},
};
use hns_cluster::readiness::Readiness;

/// Registers the metrics of every binary: `hns_build_info` and the process metrics.
///
/// # Errors
/// One of the names is taken.
pub fn register(registry: &Registry, program: Program) -> prometheus::Result<()> {
    let about = Opts::new("hns_build_info", "Always 1; the label names the version.")
        .const_label("version", program.version);
    let build = Gauge::with_opts(about)?;
    build.set(1.0);
    registry.register(Box::new(build))?;
    registry.register(Box::new(process::Process::new()?))
}

/// Listens on both addresses and serves until the process ends, also during a shutdown: without a response, a kubelet cannot
/// distinguish a process that drains from one that has ended.
///
/// # Errors
/// An address cannot be listened on; the message names the flag.
pub async fn serve(args: &CommonArgs, process: &Process) -> anyhow::Result<()> {
    let health = listen("health-probe-bind-address", &args.health_probe_bind_address).await?;
    let metrics = listen("metrics-addr", &args.metrics_addr).await?;
    spawn(health, health_router(process.readiness.clone(), process.current.clone()));
    spawn(metrics, metrics_router(process.registry.clone(), process.current.clone()));
    Ok(())
}

async fn listen(flag: &str, address: &crate::listen::ListenAddress) -> anyhow::Result<Option<TcpListener>> {
    address.listen().await.map_err(|error| anyhow::anyhow!("--{flag}={address}: {error}"))
}

fn spawn(listener: Option<TcpListener>, router: Router) {
    if let Some(listener) = listener {
        let server = Server::plain(listener, Limits::ADMIN);
        tokio::spawn(server.serve(router, std::future::pending(), Grace::NONE));
    }
}

/// `/healthz`: 200 while the process can answer at all. `/readyz`: 200 or 503, with the list of
/// conditions either way.
pub fn health_router(readiness: Readiness, current: Arc<ArcSwap<Part>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state((readiness, current))
}

async fn readyz(State((readiness, current)): State<(Readiness, Arc<ArcSwap<Part>>)>) -> impl IntoResponse {
    let report = readiness.report_with(&current.load().readiness);
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, report.text)
}

/// `/metrics` in Prometheus' text format.
pub fn metrics_router(registry: Registry, current: Arc<ArcSwap<Part>>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state((registry, current))
}

async fn metrics(
    State((registry, current)): State<(Registry, Arc<ArcSwap<Part>>)>,
) -> axum::response::Response {
    let mut families = registry.gather();
    families.extend(current.load().registry.gather());
    match TextEncoder::new().encode_to_string(&families) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_follows_the_readiness_and_healthz_does_not() {
        let readiness = Readiness::new();
        let condition = readiness.condition("namespaces", "first list is under way");
        let router = health_router(readiness.clone(), Arc::default());
        let (status, text) = ask(&router, "/readyz?verbose").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("[-]namespaces not ready: first list is under way"), "{text}");
        condition.ready();
        let (status, text) = ask(&router, "/readyz").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("[+]namespaces ok"), "{text}");
        readiness.shutting_down();
        assert_eq!(ask(&router, "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&router, "/healthz?verbose").await, (StatusCode::OK, "ok".to_owned()));
    }

    #[tokio::test]
    async fn metrics_tell_the_version_and_the_process() {
        let registry = Registry::new();
        let program = Program { name: "hns-test", version: "1.2.3", threads: None };
        register(&registry, program).unwrap();
        let (status, text) = ask(&metrics_router(registry, Arc::default()), "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("hns_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_start_time_seconds",
        ] {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            let value = line.and_then(|line| line.split(' ').next_back());
            let value: f64 = value.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap();
            assert!(value > 0.0, "{name} {value}");
        }
    }
}
