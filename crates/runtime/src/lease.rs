//! Which of several replicas is the leader: the holder of a Lease.
//!
//! A lease held by a clock cannot prove that no other replica writes, so writes carry their own preconditions. This module only
//! elects the replica that should write. It compares no wall clocks: each side measures, by its own monotonic clock, how long the
//! Lease has not changed.
//!
//! [`Timing`]: a lease lasts for its duration. Its holder renews it every retry period, and gives up when the renewal deadline
//! has passed since the start of its last successful renewal. The difference between lease duration and renewal deadline is the
//! margin between the moment at which a holder stops and the earliest moment at which another replica takes over.

mod decide;
mod elector;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hns_cluster::api::Api;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use parking_lot::RwLock;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::Instant,
};

use self::elector::Elector;

/// How long others respect a lease that is not renewed.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a holder may act after it began its last successful renewal.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a holder renews, and a follower looks.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// The times of an election. All replicas need the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others respect a lease that is not renewed: whole seconds, more than the next.
    pub(crate) lease_duration: Duration,
    /// How long a holder may act after it began its last successful renewal, more than the next.
    pub(crate) renew_deadline: Duration,
    /// How often a holder renews, and a follower looks.
    pub(crate) retry_period: Duration,
}

impl Default for Timing {
    /// 15, 10 and 2 seconds, as with Kubernetes' own controllers.
    fn default() -> Self {
        Self { lease_duration: LEASE_DURATION, renew_deadline: RENEW_DEADLINE, retry_period: RETRY_PERIOD }
    }
}

impl Timing {
    /// How long one request to the API server may take.
    fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// This replica's participation in an election. Clones share it.
#[derive(Clone, Debug)]
pub struct Leadership {
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Until when this replica leads, unless it is told otherwise.
    valid_until: RwLock<Option<Instant>>,
    /// Wakes the elector in order to give the lease back.
    release: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Following,
    Leading,
    /// Final: the lease is lost or given back.
    Ended,
}

impl Leadership {
    /// Joins the election for the Lease `name` in `namespace`, in the background, until the lease is lost or given back.
    ///
    /// It has its own thread, on which it also connects: work that keeps all other threads busy for seconds does not cost the lease.
    ///
    /// `identity` must be unique to this replica, and stay the same after a restart: a restarted replica then continues at once.
    /// The name of a pod meets both; see [`identity`].
    ///
    /// # Errors
    /// `connect` fails, or the thread cannot be started.
    pub async fn seek(
        connect: impl Future<Output = anyhow::Result<Client>> + Send + 'static,
        (namespace, name): (&str, &str),
        identity: String,
        timing: Timing,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let (joined, leadership) = oneshot::channel();
        let elect = async move {
            match connect.await {
                Ok(client) => {
                    let (leadership, elector) = Self::join(client, (&namespace, &name), identity, timing);
                    // An error means that the process ends.
                    let _ = joined.send(Ok(leadership));
                    elector.run().await;
                }
                Err(error) => drop(joined.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || runtime.block_on(elect))?;
        leadership.await?
    }

    fn join(
        client: Client,
        (namespace, name): (&str, &str),
        identity: String,
        timing: Timing,
    ) -> (Self, Elector) {
        let api = Api::<Lease>::namespaced(client, namespace);
        let shared = Arc::new(Shared::default());
        let (sender, phase) = watch::channel(Phase::Following);
        let elector = Elector::new(api, (name.to_owned(), identity, timing), shared.clone(), sender);
        (Self { shared, phase }, elector)
    }

    /// Waits until this replica leads. Never returns if the election ends first.
    pub async fn acquired(&self) {
        let mut phase = self.phase.clone();
        if phase.wait_for(|phase| *phase == Phase::Leading).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether this replica leads now. After a process was stopped for longer than the renewal deadline, this returns `false`
    /// from its first instruction on, and never `true` again.
    pub fn is_leader(&self) -> bool {
        let valid = |until: Instant| Instant::now() < until;
        *self.phase.borrow() == Phase::Leading && self.shared.valid_until.read().is_some_and(valid)
    }

    /// Waits until this replica has led and no longer does, because it lost the lease or gave it back. End the process then:
    /// another replica may be writing by now.
    pub async fn lost(&self) {
        self.acquired_or_ended().await;
        let mut phase = self.phase.clone();
        while self.is_leader() {
            let until = self.shared.valid_until.read().unwrap_or_else(Instant::now);
            tokio::select! {
                ended = phase.wait_for(|phase| *phase == Phase::Ended) => {
                    // An error means that the elector has ended, and renews no more.
                    drop(ended);
                    return;
                }
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    async fn acquired_or_ended(&self) {
        let mut phase = self.phase.clone();
        // An error means that the elector has ended.
        let _ = phase.wait_for(|phase| *phase != Phase::Following).await;
    }

    /// Leaves the election. If this replica leads, it gives the lease back, so that another one takes over within a retry period:
    /// call it only when nothing writes any more. Returns when that is done, or failed.
    pub async fn release(&self) {
        self.shared.release.notify_one();
        let mut phase = self.phase.clone();
        // Until the elector has ended. Its phase ends before it writes: this replica must not act meanwhile.
        while phase.changed().await.is_ok() {}
    }
}

/// This replica's identity in elections: `$POD_NAME`, else the host name, which in a pod is the pod's name.
///
/// Two replicas on one host need different `$POD_NAME`s; otherwise each takes the other for itself.
///
/// # Errors
/// Neither is set.
pub fn identity() -> anyhow::Result<String> {
    let pod = std::env::var("POD_NAME").unwrap_or_default();
    if !pod.is_empty() {
        return Ok(pod);
    }
    let host = hostname::get()?.to_string_lossy().into_owned();
    anyhow::ensure!(!host.is_empty(), "set POD_NAME: this host has no name");
    Ok(host)
}
