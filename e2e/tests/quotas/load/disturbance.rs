//! Kills, stops and restarts replicas.

use std::time::Duration;

use anyhow::Result;
use hns_e2e::product::NAMESPACE;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Replica, Signal, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::{Instant, sleep, sleep_until};

use crate::quotas::scene::Scene;

/// What happens to the leading controller.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Kill,
    /// It is stopped for so many seconds.
    Stop(u64),
}

pub(crate) struct Disturbance<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) began: Instant,
    pub(crate) until: Instant,
    /// A webhook is killed this often.
    pub(crate) kills: Duration,
}

impl Disturbance<'_> {
    /// Kills one webhook after the other, and starts it again. Stops another one at these seconds for so many seconds.
    pub(crate) async fn of_webhooks(&self, webhooks: &mut [Replica], stops: &[(u64, u64)]) -> Result<String> {
        let (mut kills, mut stopped) = (0, 0);
        let mut stops = stops.iter().peekable();
        let mut tick = self.began + self.kills;
        while tick < self.until {
            sleep_until(tick).await;
            let at = kills % webhooks.len();
            if let Some((_, seconds)) = stops.next_if(|(second, _)| self.began.elapsed().as_secs() >= *second)
            {
                let other = webhooks[(at + 1) % webhooks.len()].process();
                other.signal(Signal::STOP)?;
                stopped += 1;
                let seconds = *seconds;
                tokio::spawn(async move {
                    sleep(Duration::from_secs(seconds)).await;
                    // The replica may have been killed.
                    let _ = other.signal(Signal::CONT);
                });
            }
            webhooks[at].kill().await?;
            webhooks[at].restart().await?;
            kills += 1;
            tick += self.kills;
        }
        Ok(format!("{kills} webhooks killed, {stopped} stopped"))
    }

    /// Kills or stops the leading controller at these seconds.
    pub(crate) async fn of_controllers(
        &self,
        controllers: &mut [Replica],
        events: &[(u64, Kind)],
    ) -> Result<String> {
        let (mut kills, mut stops) = (0, 0);
        for (second, kind) in events {
            sleep_until(self.began + Duration::from_secs(*second)).await;
            let leader = self.leader(controllers).await?;
            match kind {
                Kind::Kill => {
                    controllers[leader].kill().await?;
                    kills += 1;
                }
                Kind::Stop(seconds) => {
                    let process = controllers[leader].process();
                    process.signal(Signal::STOP)?;
                    sleep(Duration::from_secs(*seconds)).await;
                    process.signal(Signal::CONT)?;
                    // It ends, because its lease is lost.
                    process.wait_exit(PATIENCE).await?;
                    stops += 1;
                }
            }
            controllers[leader].restart().await?;
        }
        Ok(format!("{kills} leading controllers killed, {stops} stopped past their lease"))
    }

    async fn leader(&self, controllers: &[Replica]) -> Result<usize> {
        let leases: Api<Lease> = Api::namespaced(self.scene.steps.client.clone(), NAMESPACE);
        eventually("one of the controllers leads", PATIENCE * 2, async || {
            let lease = leases.get("hns-controller").await.map_err(|error| error.to_string())?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let leads = |it: &Replica| it.pod_name() == holder && it.process().exit().is_none();
            controllers.iter().position(leads).ok_or_else(|| format!("{holder:?} leads"))
        })
        .await
    }
}
