//! The connection to the API server.
//!
//! Finds the cluster and builds a client that never cuts a watch and detects a dead peer. It retries nothing: the caller knows
//! whether the request is still needed.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, header::USER_AGENT};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{BoxError, ServiceBuilder, limit::RateLimitLayer};

use crate::{args::CommonArgs, process::Program};

/// TCP and TLS handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The API server does not read a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The first probe of a peer that acknowledges nothing, and the time until the connection is given up.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const GONE_AFTER: Duration = Duration::from_secs(30);
/// Below the 90 s after which the API server closes idle connections: if both closed at the same time, a request could be lost.
const POOL_IDLE: Duration = Duration::from_secs(60);
/// Idle connections kept; the others are closed once their request is answered.
const POOL_SIZE: usize = 64;

/// A client for everything but leases, limited by `--apiserver-qps-throttle` if that is not 0.
///
/// Only reads configuration; the first request connects. A request without a time limit of its own waits as long as the API
/// server keeps the connection alive.
///
/// # Errors
/// No configuration was found, or it cannot be used.
pub async fn connect(args: &CommonArgs, program: Program) -> anyhow::Result<Client> {
    build(config(args, program).await?, args.apiserver_qps_throttle)
}

/// A client without a rate limit: for the lease, which must not queue behind writes.
///
/// # Errors
/// As [`connect`].
pub async fn connect_unthrottled(args: &CommonArgs, program: Program) -> anyhow::Result<Client> {
    build(config(args, program).await?, 0)
}

/// The error without its sources, which its text includes.
fn said_once(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(why, path) => anyhow::anyhow!("{} cannot be read: {why}", path.display()),
        other => anyhow::anyhow!("{other}"),
    }
}

/// The order of controller-runtime: the flag, `$KUBECONFIG`, the pod's service account, the home
/// directory.
async fn config(args: &CommonArgs, program: Program) -> anyhow::Result<Config> {
    let options = KubeConfigOptions::default();
    let mut config = if let Some(path) = args.kubeconfig() {
        let named = || format!("--kubeconfig={}", path.display());
        let kubeconfig = Kubeconfig::read_from(path).map_err(said_once).with_context(named)?;
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(said_once).with_context(named)?
    } else if is_set("KUBECONFIG") {
        Config::from_kubeconfig(&options).await.map_err(said_once).context("$KUBECONFIG")?
    } else if is_set("KUBERNETES_SERVICE_HOST") {
        Config::incluster().context("the pod's service account")?
    } else {
        Config::from_kubeconfig(&options).await.map_err(said_once).context(
            "no --kubeconfig, no $KUBECONFIG, not in a pod, and nothing usable in the home directory",
        )?
    };
    let agent = format!("{}/{}", program.name, program.version);
    config.headers.push((USER_AGENT, HeaderValue::try_from(agent)?));
    Ok(config)
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// The client's layers, from the request inwards: rate limit, base address, credentials, user agent, connection pool.
///
/// kube's default stack is not used for three reasons. It retries 429, 503 and 504 by itself, up to fifteen times with up to
/// 1,000 s between, while callers expect an answer within seconds; it cannot set TCP keep-alive; and it logs every refusal as an
/// error.
///
/// HTTP/1.1 over a pool, not HTTP/2: kube offers no ALPN protocol, so its own client uses HTTP/1.1, too. Concurrent small writes
/// then use separate connections, each with its own flow control, and are spread over the API servers behind a load balancer; one
/// lost packet delays one request, not all.
fn build(config: Config, requests_per_second: u32) -> anyhow::Result<Client> {
    anyhow::ensure!(
        config.proxy_url.is_none(),
        "the kubeconfig asks for a proxy (proxy-url), which is not supported"
    );
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp_connector())?);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_write_timeout(Some(WRITE_TIMEOUT));
    // No read timeout: a watch without events is not dead. Keep-alive finds dead connections.
    let pool: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_SIZE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool);
    let client = ClientBuilder::new(service, config.default_namespace);
    Ok(if requests_per_second == 0 {
        client.build()
    } else {
        let throttle = RateLimitLayer::new(requests_per_second.into(), Duration::from_secs(1));
        client.with_layer(&throttle).build()
    })
}

fn tcp_connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(Duration::from_secs(5)));
    tcp.set_keepalive_retries(Some(3));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(GONE_AFTER));
    tcp
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::{Router, http::StatusCode, routing::get};
    use clap::Parser;
    use tokio::{net::TcpListener, time::Instant};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        common: CommonArgs,
    }

    const PROGRAM: Program = Program { name: "hns-test", version: "1.2.3", threads: None };

    async fn client(server: &TcpListener, flags: &[&str]) -> Client {
        let address = server.local_addr().unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            r#"{{"clusters": [{{"name": "c", "cluster": {{"server": "http://{address}"}}}}],
                "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}],
                "users": [{{"name": "u", "user": {{"token": "secret"}}}}], "current-context": "x"}}"#
        );
        std::fs::write(kubeconfig.path(), text).unwrap();
        let path = kubeconfig.path().to_str().unwrap();
        let words = ["hns-test", "--kubeconfig", path];
        let args = Command::parse_from(words.iter().chain(flags)).common;
        connect(&args, PROGRAM).await.unwrap()
    }

    fn request() -> http::Request<Vec<u8>> {
        http::Request::get("/").body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn requests_carry_the_user_agent_and_the_token() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(&listener, &[]).await;
        let echo = |headers: http::HeaderMap| async move {
            let header = |name| headers[name].to_str().unwrap().to_owned();
            format!("{} {}", header("user-agent"), header("authorization"))
        };
        let router = Router::new().route("/", get(echo));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let text = client.request_text(request()).await.unwrap();
        assert_eq!(text, "hns-test/1.2.3 Bearer secret");
        server.abort();
    }

    #[tokio::test]
    async fn a_refusal_is_reported_once_and_not_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(&listener, &[]).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let router = Router::new().route(
            "/",
            get({
                let asked = asked.clone();
                async move || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    StatusCode::SERVICE_UNAVAILABLE
                }
            }),
        );
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        client.request_text(request()).await.unwrap_err();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        server.abort();
    }

    #[tokio::test]
    async fn the_throttle_holds_up_only_if_asked_for() {
        for (flags, at_least, at_most) in
            [(&["--apiserver-qps-throttle=5"][..], 2000, u128::MAX), (&[][..], 0, 1500)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = client(&listener, flags).await;
            let router = Router::new().route("/", get(|| async { "ok" }));
            let server = tokio::spawn(async move { axum::serve(listener, router).await });
            let start = Instant::now();
            let all = (0..15).map(|_| client.request_text(request()));
            futures::future::try_join_all(all).await.unwrap();
            let took = start.elapsed().as_millis();
            assert!((at_least..at_most).contains(&took), "{flags:?}: {took} ms");
            server.abort();
        }
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let args = Command::parse_from(["hns-test", "--kubeconfig=no/such/file"]).common;
        let Err(error) = connect(&args, PROGRAM).await else {
            panic!("connected");
        };
        let text = format!("{error:#}");
        assert!(text.contains("--kubeconfig=no/such/file"), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}
