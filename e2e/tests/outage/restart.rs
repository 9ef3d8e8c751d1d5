//! The API server goes and comes back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Signal, eventually, refusal, stays};

use super::fixture::turn;

#[tokio::test]
async fn when_the_api_server_restarts_both_go_on_and_nothing_is_deleted() -> Result<()> {
    let turn = turn().await;
    let mut both = turn.start().await?;
    let steps = &turn.steps;
    steps.plant(&[("a-root", ""), ("a-mid", "a-root"), ("a-leaf", "a-mid")]).await?;
    let below = ["a-mid", "a-leaf"];
    steps.create_binding("a-root", "before", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&below, "before", "a-root", "alice").await?;
    steps.labelled(&["a-leaf", "a-mid", "a-root"]).await?;
    let mark = turn.cluster().audit().mark()?;

    let gone = Instant::now();
    turn.cluster().api_server().signal(Signal::KILL)?;
    turn.cluster().api_server().wait_exit(PATIENCE).await?;
    stays("what was known still stands", Duration::from_secs(2), async || {
        for replica in both.replicas() {
            match replica.readiness().await.map_err(|error| format!("{error:#}"))? {
                (true, _) => {}
                (false, text) => return Err(format!("{}: {text}", replica.pod_name())),
            }
        }
        Ok(())
    })
    .await?;
    turn.cluster().restart_api_server().await?;
    println!("the API server was away for {:.1?}", gone.elapsed());
    let back = Instant::now();
    if both.controller.process().exit().is_some() {
        // It could not renew its lease in time, so it had to end; a kubelet starts it again.
        println!("the controller had lost its lease and is started again");
        both.controller.restart().await?;
    }

    steps.create_binding("a-root", "after", ("ClusterRole", "view"), "bob").await?;
    steps.binding_arrives(&below, "after", "a-root", "bob").await?;
    println!("propagated {:.1?} after the API server was back", back.elapsed());
    let status = eventually("a cycle is judged", PATIENCE, async || {
        let status = refusal(steps.set_parent("a-root", "a-leaf").await);
        if status.code == 409 { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await?;
    ensure!(status.reason == "Conflict" && status.message.contains("a-leaf"), "{status:?}");
    steps.set_parent("a-leaf", "a-root").await?;
    steps.labelled(&["a-leaf", "a-root"]).await?;
    steps.binding_arrives(&below, "before", "a-root", "alice").await?;

    let written = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    ensure!(!written.is_empty(), "its writes are in the log");
    let deleted: Vec<_> = written.iter().filter(|event| event.verb.starts_with("delete")).collect();
    ensure!(deleted.is_empty(), "{deleted:?}");
    both.unharmed()?;
    turn.webhook_only_asked()?;
    Ok(())
}
