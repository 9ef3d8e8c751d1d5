//! The first lists of a controller that starts are of different moments: nothing is written that should be at none of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Fault, eventually};
use http::request::Parts;

use super::fixture::turn;

/// So long the watch of the hierarchy is behind.
const BEHIND: Duration = Duration::from_secs(4);

#[tokio::test]
async fn what_has_left_a_tree_before_a_binding_came_never_gets_it() -> Result<()> {
    let turn = turn().await;
    let mut both = turn.start().await?;
    turn.steps.plant(&[("m-root", ""), ("m-leaf", "m-root")]).await?;
    turn.steps.labelled(&["m-leaf", "m-root"]).await?;
    both.controller.terminate().await?;

    let listing = Arc::new(AtomicBool::new(false));
    both.proxies[1].set_rule({
        let listing = Arc::clone(&listing);
        move |parts: &Parts| {
            let (path, is_watch) =
                (parts.uri.path(), parts.uri.query().is_some_and(|it| it.contains("watch=true")));
            match path.rsplit('/').next() {
                Some("hierarchyconfigurations") if is_watch => Some(Fault::Delay(BEHIND)),
                Some("rolebindings") if !is_watch && parts.method == http::Method::GET => {
                    listing.store(true, Ordering::Relaxed);
                    Some(Fault::Hold)
                }
                _ => None,
            }
        }
    });
    turn.steps.create_role("m-root", "early", (&["get"], "", "pods")).await?;
    both.controller.relaunch()?;
    eventually("role bindings are about to be listed", PATIENCE, async || {
        if listing.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await?;
    // A kind whose list does not come holds up no other.
    eventually("a role arrives meanwhile", PATIENCE, async || {
        match turn.steps.roles("m-leaf").get_opt("early").await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;

    turn.steps.set_parent("m-leaf", "").await?;
    turn.steps.create_binding("m-root", "late", ("ClusterRole", "view"), "alice").await?;
    both.proxies[1].release();
    turn.steps.labelled(&["m-leaf"]).await?;
    both.controller.wait_ready().await?;
    let written = turn.written_by_the_controller("rolebindings", "m-leaf")?;
    ensure!(written == 0, "a copy was made where it should never be, and deleted again: {written} writes");

    // And everything goes on.
    turn.steps.set_parent("m-leaf", "m-root").await?;
    turn.steps.binding_arrives(&["m-leaf"], "late", "m-root", "alice").await?;
    both.unharmed()
}
