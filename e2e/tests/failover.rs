//! Two controllers with leader election: how soon the other takes over when the leader ends, is killed or is stopped, and that a
//! leader that resumes too late undoes nothing. The API server's audit log tells the two apart by their tokens.

#[cfg(test)]
mod failover {
    pub(crate) mod pair;
    pub(crate) mod round;
}

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hns_e2e::{Cluster, Exit, eventually};

use self::failover::pair::Pair;
use self::failover::round::{Held, Rounds};

/// Of a leader that ends well.
const RELEASED: Duration = Duration::from_secs(5);
/// Of one that is gone: what the lease lasts, and what others take to notice.
const EXPIRED: Duration = Duration::from_secs(20);

/// Shorter than by default, so that many rounds fit; long enough for a busy machine to renew in time.
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];

#[tokio::test]
async fn another_replica_takes_over_from_one_that_ends_and_from_one_that_is_killed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let mut pair = Pair::start(&cluster, &[]).await?;
    let steps = pair.steps();
    steps.plant(&[("f-root", ""), ("f-leaf", "f-root")]).await?;

    for (how, limit) in [("SIGTERM", RELEASED), ("SIGKILL", EXPIRED)] {
        let (leader, _) = pair.roles().await?;
        let binding = how.to_lowercase();
        let began = Instant::now();
        let exit = match how {
            "SIGTERM" => pair.member(leader).replica.terminate().await?,
            _ => pair.member(leader).replica.kill().await?,
        };
        ensure!(exit == if how == "SIGTERM" { Exit::Code(0) } else { Exit::Signal(9) }, "{how}: {exit}");
        let told = began.elapsed();
        steps.create_binding("f-root", &binding, ("ClusterRole", "view"), "alice").await?;
        eventually(&format!("{how}: the other replica has taken over"), limit * 2, async || {
            let found =
                steps.bindings("f-leaf").get_opt(&binding).await.map_err(|error| error.to_string())?;
            found.map(drop).ok_or_else(|| "no copy yet".to_owned())
        })
        .await?;
        let took = began.elapsed();
        println!(
            "{how}: ended after {told:.1?}; another replica had taken over and written after {took:.1?}"
        );
        ensure!(took < limit, "{how}: it took {took:?}");
        pair.relaunch(leader).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_leader_that_was_stopped_past_its_lease_undoes_nothing() -> Result<()> {
    let cluster = Cluster::start().await?;
    rounds(&cluster, "a", 10).await
}

#[tokio::test]
async fn a_leader_that_was_stopped_past_its_lease_undoes_nothing_either() -> Result<()> {
    let cluster = Cluster::start().await?;
    rounds(&cluster, "b", 10).await
}

async fn rounds(cluster: &Cluster, series: &str, count: usize) -> Result<()> {
    let pair = Pair::start(cluster, &SHORT).await?;
    let mut rounds = Rounds::plant(pair, series).await?;
    let kinds = [Held::Creates, Held::Updates, Held::Deletes].into_iter().cycle();
    for (number, held) in kinds.take(count).enumerate() {
        rounds.play(number, held).await?;
    }
    Ok(())
}
