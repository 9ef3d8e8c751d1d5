//! The election: reads and writes the Lease, and reports the result.
//!
//! Every write carries the resourceVersion that was read, so of two concurrent writes the API server refuses one.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Error, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;

use super::{
    LEASE_DURATION, Phase, Shared, Timing,
    decide::{Decision, Observed, decide},
};

/// How often one attempt reads the Lease again because another replica wrote first.
const RACES: usize = 3;

pub(super) struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    /// The Lease as last read or written, and when this version of it was first seen.
    seen: Option<(Lease, Instant)>,
    /// The last failure that was logged.
    complained: Option<String>,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// This replica holds the lease.
    Held,
    /// Another replica holds the lease, at least until then.
    Refused(Instant),
}

impl Elector {
    pub(super) fn new(
        api: Api<Lease>,
        (name, identity, timing): (String, String, Timing),
        shared: Arc<Shared>,
        phase: watch::Sender<Phase>,
    ) -> Self {
        Self { api, name, identity, timing, shared, phase, seen: None, complained: None }
    }

    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        tokio::select! {
            () = self.hold() => {}
            // Cancels a running attempt; its result is read again.
            () = shared.release.notified() => self.give_back().await,
        }
        self.phase.send_replace(Phase::Ended);
    }

    /// Seeks the lease, then renews it until it is lost.
    async fn hold(&mut self) {
        loop {
            let began = Instant::now();
            let mut next = began + self.timing.retry_period;
            let valid_until = self.valid_until();
            let limit = began + self.timing.request_timeout();
            let limit = limit.min(valid_until.unwrap_or(limit));
            match timeout_at(limit, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => self.held(began),
                Ok(Ok(Attempt::Refused(until))) => {
                    self.complained = None;
                    if valid_until.is_some() {
                        tracing::error!(
                            lease = self.name,
                            holder = self.holder(),
                            "leadership lost: another replica has it"
                        );
                        return;
                    }
                    next = next.min(until);
                }
                Ok(Err(error)) => self.complain(error_text(&error)),
                Err(_) => self.complain("the API server did not answer in time".to_owned()),
            }
            if let Some(until) = valid_until
                && (Instant::now() >= until)
            {
                tracing::error!(lease = self.name, "leadership lost: the lease could not be renewed in time");
                return;
            }
            sleep_until(next.min(self.valid_until().unwrap_or(next))).await;
        }
    }

    /// `None` until the lease is acquired.
    fn valid_until(&self) -> Option<Instant> {
        *self.shared.valid_until.read()
    }

    /// Counts from the start of the attempt, because the time of the write at the API server is not known.
    fn held(&mut self, began: Instant) {
        self.complained = None;
        let mut valid_until = self.shared.valid_until.write();
        if valid_until.is_some_and(|until| Instant::now() >= until) {
            // Too late: other parts were told that this replica does not lead.
            return;
        }
        *valid_until = Some(began + self.timing.renew_deadline);
        drop(valid_until);
        let before = self.phase.send_replace(Phase::Leading);
        if before == Phase::Following {
            tracing::info!(lease = self.name, identity = self.identity, "leading");
        }
    }

    fn complain(&mut self, reason: String) {
        if self.complained.as_ref() != Some(&reason) {
            tracing::warn!(lease = self.name, reason, "lease not read or written");
        }
        self.complained = Some(reason);
    }

    async fn attempt(&mut self) -> Result<Attempt, Error> {
        // A holder knows what it wrote; other replicas read the Lease.
        let mut look = self.valid_until().is_none() || self.seen.is_none();
        for race in 1.. {
            if look {
                self.look().await?;
            }
            let seen = self.seen.as_ref().map(|(lease, since)| seen(lease, *since));
            let new_holder = match decide(seen.as_ref(), Instant::now(), &self.identity) {
                Decision::Wait(until) => return Ok(Attempt::Refused(until)),
                Decision::Acquire => true,
                Decision::Renew => false,
            };
            let lease = self.claim(new_holder);
            match self.write(lease).await {
                Ok(()) => return Ok(Attempt::Held),
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) && race < RACES => look = true,
                Err(error) => return Err(error),
            }
        }
        Ok(Attempt::Held)
    }

    async fn look(&mut self) -> Result<(), Error> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            self.seen = None;
            return Ok(());
        };
        let since = match &self.seen {
            Some((known, since)) if known.resource_version() == lease.resource_version() => *since,
            _ => Instant::now(),
        };
        self.seen = Some((lease, since));
        Ok(())
    }

    async fn write(&mut self, lease: Lease) -> Result<(), Error> {
        let params = PostParams::default();
        let written = if lease.metadata.resource_version.is_some() {
            self.api.replace(&self.name, &params, &lease).await?
        } else {
            self.api.create(&params, &lease).await?
        };
        self.seen = Some((written, Instant::now()));
        Ok(())
    }

    /// The Lease with this replica as its holder.
    fn claim(&self, new_holder: bool) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease = self.seen.as_ref().map_or_else(|| self.unwritten(), |(lease, _)| lease.clone());
        let spec = lease.spec.get_or_insert_default();
        if new_holder {
            let earlier = spec.lease_transitions.map_or(0, |count| count.saturating_add(1));
            spec.lease_transitions = Some(earlier);
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(in_seconds(self.timing.lease_duration));
        spec.renew_time = Some(now);
        lease
    }

    fn unwritten(&self) -> Lease {
        Lease { metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }, spec: None }
    }

    fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |(lease, _)| holder(lease))
    }

    /// Clears the Lease's holder, if that is this replica.
    async fn give_back(&mut self) {
        if self.valid_until().is_none() {
            return;
        }
        // From here on this replica does not act, even if the write of the Lease fails.
        self.phase.send_replace(Phase::Ended);
        let deadline = Instant::now() + self.timing.retry_period;
        match timeout_at(deadline, self.try_give_back()).await {
            Ok(Ok(())) => tracing::info!(lease = self.name, "lease given back"),
            Ok(Err(error)) => self.complain(error_text(&error)),
            Err(_) => self.complain("the API server did not answer in time".to_owned()),
        }
    }

    async fn try_give_back(&mut self) -> Result<(), Error> {
        loop {
            // The attempt that was cancelled may have written.
            self.look().await?;
            let Some((lease, _)) = &self.seen else {
                return Ok(());
            };
            if holder(lease) != self.identity {
                return Ok(());
            }
            let mut lease = lease.clone();
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            match self.write(lease).await {
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => return other,
            }
        }
    }
}

fn spec(lease: &Lease) -> Option<&LeaseSpec> {
    lease.spec.as_ref()
}

fn holder(lease: &Lease) -> &str {
    spec(lease).and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn seen(lease: &Lease, unchanged_since: Instant) -> Observed<'_> {
    let seconds = spec(lease).and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Observed {
        holder: holder(lease),
        duration: seconds.map_or(LEASE_DURATION, Duration::from_secs),
        unchanged_since,
    }
}

fn in_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}
