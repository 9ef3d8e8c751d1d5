//! The controller is killed at any moment, replaced, or restarted with nothing to do; and works without a webhook that denies
//! wrong changes.

#[cfg(test)]
mod crash {
    mod conflicts;
    pub(crate) mod fixture;
    pub(crate) mod large;
    pub(crate) mod moving;
    pub(crate) mod state;
    pub(crate) mod way;
}

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hns_e2e::product::{CONTROLLER_USER, NAMESPACE};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Component, Exit, Launch, Mark, Proxy, Replica, Steps, eventually, refusal, stays};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;

use self::crash::fixture::{Turn, turn, turn_with_accurate};
use self::crash::large;
use self::crash::moving::killed_after_any_write;
use self::crash::way::Way;

/// A replica that takes over, or restarts, works within this time: a third of the lease duration.
const AT_ONCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn killed_after_any_write_of_a_move_the_controller_loses_and_leaks_nothing() -> Result<()> {
    killed_after_any_write(&turn().await, Way::Parent).await
}

#[tokio::test]
async fn killed_after_any_write_for_another_template_the_controller_loses_and_leaks_nothing() -> Result<()> {
    killed_after_any_write(&turn_with_accurate().await, Way::Template).await
}

#[tokio::test]
async fn a_second_replica_waits_and_takes_over_at_once_from_one_that_ends_well() -> Result<()> {
    let turn = turn().await;
    let (first_proxy, second_proxy) = (Proxy::start(turn.cluster())?, Proxy::start(turn.cluster())?);
    let first = start(&turn, "first", &first_proxy).await?;
    held_by(&turn, "first").await?;
    let second = start(&turn, "second", &second_proxy).await?;

    let steps = turn.steps();
    steps.plant(&[("t-root", ""), ("t-leaf", "t-root")]).await?;
    steps.create_binding("t-root", "by-first", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&["t-leaf"], "by-first", "t-root", "alice").await?;
    let writes = first_proxy.writes();
    ensure!(writes > 0, "the first replica has written, through its own proxy");
    stays("the second replica writes nothing", Duration::from_secs(3), async || {
        match second_proxy.writes() {
            0 => Ok(()),
            writes => Err(format!("{writes} writes")),
        }
    })
    .await?;
    println!("while the first replica leads ({writes} writes), the second wrote nothing");

    let told = Instant::now();
    let exit = first.terminate().await?;
    ensure!(exit == Exit::Code(0), "the first replica ended with {exit}");
    let last = first_proxy.writes();
    steps.create_binding("t-root", "by-second", ("ClusterRole", "view"), "bob").await?;
    steps.binding_arrives(&["t-leaf"], "by-second", "t-root", "bob").await?;
    let took = told.elapsed();
    ensure!(took < AT_ONCE, "it took the second replica {took:?} to take over");
    held_by(&turn, "second").await?;
    // A copy can be visible a moment before the proxy has the response.
    eventually("the second replica has written", PATIENCE, async || match second_proxy.writes() {
        0 => Err("no write".to_owned()),
        _ => Ok(()),
    })
    .await?;
    let more = first_proxy.writes() - last;
    ensure!(more == 0, "the first replica wrote {more} times more after its end");
    println!("{took:.1?} after SIGTERM to the first, the second has taken over and propagated");
    ensure!(second.terminate().await? == Exit::Code(0));
    Ok(())
}

#[tokio::test]
async fn a_restart_with_nothing_to_do_writes_nothing() -> Result<()> {
    let turn = turn().await;
    let mut controller = turn.product.start_controller().await?;
    let steps = turn.steps();
    let names = plant_thirty(&steps).await?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();

    ensure!(controller.terminate().await? == Exit::Code(0));
    let mark = turn.cluster().audit().mark()?;
    let written = || -> Result<Vec<AuditEvent>> {
        let mut events = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
        events.retain(|event| event.resource != "leases");
        Ok(events)
    };
    controller.restart().await?;
    stays("the restarted controller writes nothing", Duration::from_secs(10), async || {
        match written().map_err(|error| error.to_string())?.as_slice() {
            [] => Ok(()),
            events => Err(format!("{events:?}")),
        }
    })
    .await?;
    held_by(&turn, controller.pod_name()).await?;
    let (copies, namespaces) = (names.len() * SOURCES, names.len());
    ensure!(namespaces >= 30 && copies >= 100);
    println!(
        "a restart over {copies} copies in {namespaces} namespaces: no write until 10 s after it was ready"
    );

    steps.create_binding("n-root", "late", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&names, "late", "n-root", "alice").await?;
    // A copy can be visible a moment before its creation is in the log.
    eventually("one write is counted for each copy of a new source", PATIENCE, async || {
        let count = written().map_err(|error| error.to_string())?.len();
        if count == namespaces { Ok(()) } else { Err(format!("{count} writes")) }
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_restart_over_two_thousand_copies_of_several_kinds_writes_nothing() -> Result<()> {
    let turn = turn().await;
    let mut controller = turn.product.start_controller().await?;
    let steps = turn.steps();
    let began = Instant::now();
    let copies = large::plant(&steps).await?;
    println!("{copies} copies were made {:.1?} after the first namespace was", began.elapsed());
    let reasons = ["CannotPropagateObject"];
    for namespace in [large::ROOT, &large::child(0)] {
        steps.reasons(namespace, &reasons).await?;
    }
    let mark = turn.cluster().audit().mark()?;
    idle_since(&turn, mark, Duration::from_secs(3)).await?;

    ensure!(controller.terminate().await? == Exit::Code(0));
    let mark = turn.cluster().audit().mark()?;
    controller.relaunch()?;
    let started = Instant::now();
    controller.wait_ready().await?;
    println!("ready {:.1?} after it was started again", started.elapsed());
    stays("the restarted controller writes nothing", Duration::from_secs(10), async || {
        match written(&turn, mark).map_err(|error| error.to_string())?.as_slice() {
            [] => Ok(()),
            events => Err(format!("{} writes, first {:#?}", events.len(), &events[..events.len().min(5)])),
        }
    })
    .await?;
    held_by(&turn, controller.pod_name()).await?;

    // It was working all the time.
    steps.create_binding(large::ROOT, "late", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&[&large::child(large::CHILDREN - 1)], "late", large::ROOT, "alice").await?;
    steps.bindings(large::ROOT).delete("late", &DeleteParams::default()).await?;
    large::clear(&steps).await
}

/// The writes of the controller since `mark`, except those to its lease.
fn written(turn: &Turn, mark: Mark) -> Result<Vec<AuditEvent>> {
    let mut events = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    events.retain(|event| event.resource != "leases");
    Ok(events)
}

/// Waits until the controller has written nothing for so long.
async fn idle_since(turn: &Turn, mark: Mark, long: Duration) -> Result<()> {
    let mut last = (0, Instant::now());
    eventually("the controller has nothing to do", 3 * PATIENCE, async || {
        let count = written(turn, mark).map_err(|error| error.to_string())?.len();
        if count != last.0 {
            last = (count, Instant::now());
        }
        if last.1.elapsed() >= long { Ok(()) } else { Err(format!("{count} writes")) }
    })
    .await
}

/// Sources at the root of [`plant_thirty`].
const SOURCES: usize = 4;

/// A root with six children and five grandchildren below each, sources at the root, and cases of the status: a namespace whose
/// parent is missing, and one below it. Returns the namespaces that hold copies once they do.
async fn plant_thirty(steps: &Steps) -> Result<Vec<String>> {
    steps.create_namespace("n-root").await?;
    let mut all = Vec::new();
    for child in ["n-a", "n-b", "n-c", "n-d", "n-e", "n-f"] {
        steps.create_namespace(child).await?;
        steps.set_parent(child, "n-root").await?;
        all.push(child.to_owned());
        for number in 1..=5 {
            let name = format!("{child}-{number}");
            steps.plant(&[(&name, child)]).await?;
            all.push(name);
        }
    }
    steps.create_role("n-root", "reader", (&["get", "list"], "", "pods")).await?;
    let bindings = ["one", "two", "three"];
    for source in bindings {
        steps.create_binding("n-root", source, ("Role", "reader"), source).await?;
    }
    steps.plant(&[("n-parent", ""), ("n-orphan", "n-parent"), ("n-below", "n-orphan")]).await?;
    steps.delete_namespace("n-parent").await?;
    steps.reasons("n-orphan", &["ParentMissing"]).await?;
    steps.reasons("n-below", &["AncestorHaltActivities"]).await?;

    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    for source in bindings {
        steps.binding_arrives(&names, source, "n-root", source).await?;
    }
    eventually("the role is everywhere", PATIENCE, async || {
        for name in &names {
            let found = steps.roles(name).get_opt("reader").await.map_err(|error| error.to_string())?;
            found.ok_or_else(|| format!("{name} has none"))?;
        }
        Ok(())
    })
    .await?;
    Ok(all)
}

#[tokio::test]
async fn a_cycle_made_without_the_webhook_freezes_and_thaws() -> Result<()> {
    let turn = turn().await;
    // The test removes the registrations.
    let launch = Launch { args: vec!["--manage-registrations=false".into()], ..Launch::default() };
    let controller = turn.product.start(Component::Controller, launch).await?;
    let steps = turn.steps();
    // Each the parent of the next: c-a, c-c, c-b. By name they would come in another order.
    steps.plant(&[("c-a", ""), ("c-c", "c-a"), ("c-b", "c-c"), ("c-below", "c-b")]).await?;
    let under = ["c-c", "c-b", "c-below"];
    steps.create_binding("c-a", "early", ("ClusterRole", "view"), "alice").await?;
    steps.create_binding("c-b", "of-b", ("ClusterRole", "view"), "carol").await?;
    steps.binding_arrives(&under, "early", "c-a", "alice").await?;
    steps.binding_arrives(&["c-below"], "of-b", "c-b", "carol").await?;

    let status = refusal(steps.set_parent("c-a", "c-b").await);
    ensure!((status.code, status.reason.as_str()) == (409, "Conflict"), "{status:?}");
    ensure!(status.message.contains("c-b"), "{}", status.message);
    turn.product.uninstall_registrations().await?;
    eventually("without the webhook the cycle is let through", PATIENCE, async || {
        steps.set_parent("c-a", "c-b").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    println!("with the webhook: {} {}; without it the cycle is made", status.code, status.message);
    frozen(&steps, &under).await?;
    println!("every member says so, what is below is halted, and sources changed without effect");

    steps.set_parent("c-a", "").await?;
    for name in ["c-a", "c-b", "c-c", "c-below"] {
        steps.reasons(name, &[]).await?;
    }
    steps.labelled(&["c-below", "c-b", "c-c", "c-a"]).await?;
    steps.binding_arrives(&under, "late", "c-a", "bob").await?;
    steps.binding_leaves(&under, "early").await?;
    steps.binding_arrives(&["c-below"], "later", "c-b", "bob").await?;
    println!("the cycle is broken: conditions gone, labels and copies caught up");
    turn.product.install_registrations().await?;
    eventually("the webhook is asked again", PATIENCE, async || match steps.set_parent("c-a", "c-b").await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => {
            // It was let through once more; a try that left it like that would wait for ever.
            steps.set_parent("c-a", "").await.map_err(|error| error.to_string())?;
            Err(format!("{other:?}"))
        }
    })
    .await?;
    drop(controller);
    Ok(())
}

/// Every member reports its cycle, the namespaces below report that they are halted, and changes of sources do not propagate.
async fn frozen(steps: &Steps, under: &[&str]) -> Result<()> {
    const MEMBERS: &str = "c-a <- c-c <- c-b <- c-a";
    for member in ["c-a", "c-b", "c-c"] {
        let messages = steps.reasons(member, &["InCycle"]).await?;
        ensure!(messages[0].ends_with(&format!(": {MEMBERS}")), "{member}: {messages:?}");
        steps.labelled(&[member]).await?;
    }
    let messages = steps.reasons("c-below", &["AncestorHaltActivities"]).await?;
    ensure!(messages[0].contains("c-b"), "{messages:?}");
    steps.labelled(&["c-below", "c-b"]).await?;
    steps.create_binding("c-a", "late", ("ClusterRole", "view"), "bob").await?;
    steps.create_binding("c-b", "later", ("ClusterRole", "view"), "bob").await?;
    steps.bindings("c-a").delete("early", &DeleteParams::default()).await?;
    stays("sources change and nothing follows", Duration::from_secs(4), async || {
        for namespace in under {
            let get = async |name: &str| {
                steps.bindings(namespace).get_opt(name).await.map_err(|error| error.to_string())
            };
            if get("early").await?.is_none() {
                return Err(format!("early is gone from {namespace}"));
            }
            if get("late").await?.is_some() {
                return Err(format!("late has come to {namespace}"));
            }
            if *namespace != "c-b" && get("later").await?.is_some() {
                return Err(format!("later has come to {namespace}"));
            }
        }
        Ok(())
    })
    .await
}

async fn start(turn: &Turn, name: &str, proxy: &Proxy) -> Result<Replica> {
    let launch = Launch { pod_name: Some(name.into()), server: Some(proxy.url()), ..Launch::default() };
    turn.product.start(Component::Controller, launch).await
}

async fn held_by(turn: &Turn, holder: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(turn.cluster().admin(), NAMESPACE);
    eventually(&format!("the lease is {holder}'s"), PATIENCE, async || {
        let lease = leases.get_opt("hns-controller").await.map_err(|error| error.to_string())?;
        let seen = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        if seen.as_deref() == Some(holder) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await
}
