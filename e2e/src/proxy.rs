//! A reverse proxy between a client with a bearer token and the API server, which counts writes, stops after a chosen one, and
//! injects faults. It never changes what passes through it, and never adds credentials.

mod connection;
mod plan;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use http::request::Parts;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot, watch};

use self::connection::Upstream;
use self::plan::Plan;
use crate::cluster::Cluster;

/// A fault: what happens to one request instead of being forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this HTTP code and not forwarded.
    Answer(u16),
    /// It is answered with 429 and `Retry-After` in seconds and not forwarded.
    RetryAfter(u32),
    /// It is forwarded after this time.
    Delay(Duration),
    /// It is forwarded after the next [`Proxy::release`].
    Hold,
    /// Its connection is closed, and it is not forwarded.
    Cut,
    /// It is forwarded, and its connection is closed instead of a response.
    LoseAnswer,
}

type Rule = dyn Fn(&Parts) -> Option<Fault> + Send + Sync;

/// A running proxy. It serves plain HTTP/1.1 on loopback and connects to the API server with TLS, on a thread and runtime of its
/// own. Watches stream; upgrades (exec, port-forward) do not work. It ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the proxy's owner and its connections share.
struct Shared {
    plan: Mutex<Plan>,
    rule: Mutex<Option<Arc<Rule>>>,
    /// Every change closes the open connections.
    cuts: watch::Sender<u64>,
    /// Every change releases the held requests.
    releases: watch::Sender<u64>,
    /// Notified when a write has ended without a response, so that another may pass.
    abandoned: Notify,
    upstream: Upstream,
}

impl Proxy {
    /// Starts a proxy to a cluster's API server.
    pub fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            plan: Mutex::default(),
            rule: Mutex::default(),
            cuts: watch::Sender::new(0),
            releases: watch::Sender::new(0),
            abandoned: Notify::new(),
            upstream: Upstream::new(&cluster.url(), cluster.ca_pem())?,
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Its address, `http://127.0.0.1:PORT`, for a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many writes the API server has answered since the start or the last [`Proxy::reset`].
    ///
    /// A write is a POST, PUT, PATCH or DELETE, except a dry run, and except on leases and on access and token reviews.
    pub fn writes(&self) -> usize {
        self.shared.plan().answered()
    }

    /// Lets exactly `count` more writes reach the API server. After the response to the last of them, calls `hook`, drops that
    /// response, closes every connection, and refuses everything until [`Proxy::reset`]. With `count` 0 the first write that
    /// arrives is refused in this way.
    ///
    /// Counting starts again with this call, so no write may be in flight at that moment. Writes beyond `count` that arrive
    /// meanwhile wait and are then refused. A write whose client disconnects before the response does not count, though it may
    /// have taken effect. The hook runs on the proxy's thread; nothing passes while it runs.
    pub fn stop_after(&self, count: usize, hook: impl FnOnce() + Send + 'static) {
        *self.shared.plan() = Plan::stopping_after(count, Box::new(hook));
    }

    /// Whether a plan of [`Proxy::stop_after`] is complete.
    pub fn stopped(&self) -> bool {
        self.shared.plan().is_refusing()
    }

    /// Resets the plan, the rule and the count; everything passes again.
    pub fn reset(&self) {
        *self.shared.plan() = Plan::default();
        *lock(&self.shared.rule) = None;
    }

    /// Calls `rule` for every request from now on; `None` means that it passes. A rule that fails only some of the matching
    /// requests keeps its own count. It must not block.
    pub fn set_rule(&self, rule: impl Fn(&Parts) -> Option<Fault> + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Some(Arc::new(rule));
    }

    /// Forwards every held request.
    pub fn release(&self) {
        self.shared.releases.send_modify(|count| *count += 1);
    }

    /// Closes every open connection once, watches included; new ones are accepted.
    pub fn cut(&self) {
        self.shared.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    fn fault(&self, parts: &Parts) -> Option<Fault> {
        let rule = lock(&self.rule).clone();
        rule.and_then(|rule| rule(parts))
    }

    fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = match TcpListener::from_std(listener).context("listening") {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("hns: the proxy cannot start: {error:#}");
            return;
        }
    };
    loop {
        // A failed accept concerns one client, which will retry.
        let Ok((stream, _)) = listener.accept().await else { continue };
        if !shared.plan().is_refusing() {
            tokio::spawn(connection::serve(stream, Arc::clone(&shared)));
        }
    }
}
