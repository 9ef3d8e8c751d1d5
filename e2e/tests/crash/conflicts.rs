//! Anchors in conflict: they do not take over the name when another user's namespace is deleted, also not after a restart.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hns_api::{anchor_states, annotations};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Component, Launch, Replica, Steps, eventually, stays};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

use super::fixture::{Turn, turn};

const ROUNDS: usize = 25;

async fn shows(steps: &Steps, parent: &str, child: &str, state: &str) -> Result<()> {
    eventually(&format!("the anchor {child} in {parent} shows {state}"), PATIENCE, async || {
        let anchor = steps.anchors(parent).get(child).await.map_err(|error| error.to_string())?;
        if anchor.state() == Some(state) { Ok(()) } else { Err(format!("{:?}", anchor.state())) }
    })
    .await
}

async fn controller(turn: &Turn) -> Result<Replica> {
    turn.product.start(Component::Controller, Launch::default()).await
}

/// Kills a controller and starts it again.
async fn another(turn: &Turn, controller: Replica) -> Result<Replica> {
    controller.kill().await?;
    self::controller(turn).await
}

async fn delete(steps: &Steps, name: &str) -> Result<()> {
    steps.namespaces().delete(name, &DeleteParams::default()).await?;
    steps.gone(name).await
}

async fn none_exists(steps: &Steps, names: &[String]) -> Result<()> {
    stays("none of the namespaces comes back", Duration::from_secs(3), async || {
        let all = steps.namespaces().list_metadata(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?;
        let back = all.items.into_iter().filter_map(|it| it.metadata.name).find(|it| names.contains(it));
        back.map_or(Ok(()), |name| Err(format!("{name} is there again")))
    })
    .await
}

/// HNC's users do this: detach the namespace, delete it, and delete its parent together with the anchor.
#[tokio::test]
async fn a_detached_namespace_can_be_deleted_and_so_can_its_parent() -> Result<()> {
    let turn = turn().await;
    let steps = turn.steps();
    let mut controller = controller(&turn).await?;
    for restarts in [false, true] {
        let pair = |round: usize| (format!("kd-{restarts}-{round}"), format!("kd-{restarts}-{round}-child"));
        let pairs: Vec<(String, String)> = (0..ROUNDS).map(pair).collect();
        try_join_all(pairs.iter().map(async |(parent, child)| {
            steps.create_namespace(parent).await?;
            steps.create_anchor(parent, child).await?;
            shows(&steps, parent, child, anchor_states::OK).await
        }))
        .await?;
        let detach =
            Patch::Merge(json!({ "metadata": { "annotations": { annotations::SUBNAMESPACE_OF: null } } }));
        try_join_all(pairs.iter().map(async |(parent, child)| {
            // The webhook asks for another try until it knows the HierarchyConfiguration that the controller has just created.
            eventually(&format!("{child} is detached"), PATIENCE, async || {
                let patched = steps.namespaces().patch(child, &PatchParams::default(), &detach).await;
                patched.map(drop).map_err(|error| error.to_string())
            })
            .await?;
            if restarts { shows(&steps, parent, child, anchor_states::CONFLICT).await } else { Ok(()) }
        }))
        .await?;
        if restarts {
            controller = another(&turn, controller).await?;
        }
        try_join_all(pairs.iter().map(async |(_, child)| delete(&steps, child).await)).await?;
        try_join_all(pairs.iter().map(async |(parent, _)| delete(&steps, parent).await)).await?;
        let children: Vec<String> = pairs.into_iter().map(|(_, child)| child).collect();
        none_exists(&steps, &children).await?;
        println!("{ROUNDS} of {ROUNDS} children and parents are gone; controller restarted: {restarts}");
    }
    ensure!(controller.process().exit().is_none(), "the controller ended by itself");
    controller.kill().await?;
    Ok(())
}

/// Both were created while the name was free, so both were allowed; one came too late.
#[tokio::test]
async fn of_two_anchors_for_one_name_the_late_one_never_gets_it() -> Result<()> {
    let turn = turn().await;
    let steps = turn.steps();
    for restarts in [false, true] {
        let parents = [format!("kr-{restarts}-a"), format!("kr-{restarts}-b")];
        for parent in &parents {
            steps.create_namespace(parent).await?;
        }
        let children: Vec<String> = (0..ROUNDS).map(|round| format!("kr-{restarts}-{round}")).collect();
        for child in &children {
            try_join_all(parents.iter().map(|parent| steps.create_anchor(parent, child))).await?;
        }
        let mut controller = controller(&turn).await?;
        let race = async |child: &String| -> Result<usize> {
            let what = format!("one anchor {child} is in conflict");
            eventually(&what, PATIENCE, async || {
                let mut states = Vec::new();
                for parent in &parents {
                    let anchor = steps.anchors(parent).get(child).await.map_err(|error| error.to_string())?;
                    states.push(anchor.state().unwrap_or_default().to_owned());
                }
                let good = states.iter().position(|state| state == anchor_states::OK);
                let bad = states.iter().any(|state| state == anchor_states::CONFLICT);
                good.filter(|_| bad).ok_or_else(|| format!("{states:?}"))
            })
            .await
        };
        let good = try_join_all(children.iter().map(race)).await?;
        if restarts {
            controller = another(&turn, controller).await?;
        }
        try_join_all(children.iter().zip(good).map(async |(child, good)| {
            steps.anchors(&parents[good]).delete(child, &DeleteParams::default()).await?;
            steps.gone(child).await?;
            shows(&steps, &parents[1 - good], child, anchor_states::CONFLICT).await
        }))
        .await?;
        none_exists(&steps, &children).await?;
        println!("{ROUNDS} of {ROUNDS} names are free again; controller restarted: {restarts}");
        // An anchor that is deleted and created again is judged, and gets the name.
        let anchors = steps.anchors(&parents[0]);
        if anchors.get_opt(&children[0]).await?.is_some() {
            anchors.delete(&children[0], &DeleteParams::default()).await?;
        }
        eventually("the anchor can be created again", PATIENCE, async || {
            steps.create_anchor(&parents[0], &children[0]).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        shows(&steps, &parents[0], &children[0], anchor_states::OK).await?;
        controller.kill().await?;
    }
    Ok(())
}
