//! Certificates that hns makes itself: from a cluster without any to a change of authority under load, and whatever damages
//! them. Certificates that others bring are shown everywhere else.

#[cfg(test)]
mod certificates {
    pub(crate) mod balancer;
    pub(crate) mod damage;
    pub(crate) mod load;
    pub(crate) mod scene;
}

use std::time::Instant;

use anyhow::{Result, ensure};
use hns_e2e::{Cluster, Component, Launch, Proxy};
use k8s_openapi::ByteString;
use serde_json::Value;

use self::certificates::damage::{self, Foreign, Registration};
use self::certificates::load::Load;
use self::certificates::scene::{AUTHORITY, SERVING, Scene, certificates};

#[tokio::test]
async fn from_nothing_through_rotation_and_changes_of_authority_no_review_fails() -> Result<()> {
    let cluster = Cluster::start().await?;
    let scene = Scene::install(&cluster, 3).await?;

    let began = Instant::now();
    let mut controller = scene.start_controller(&["--cert-validity=1h"]).await?;
    scene.wait_ready().await?;
    scene.reviewed().await?;
    println!(
        "a cluster without any certificate works {:.1?} after the controller was started",
        began.elapsed()
    );
    let first = scene.settled(None).await?;

    let load = Load::start(&scene);
    controller.terminate().await?;
    // Of the year that is asked for now, less than a third is left.
    controller = scene.start_controller(&[]).await?;
    let second = scene.settled(Some(&first)).await?;
    ensure!(second.authority == first.authority, "only the webhook's certificate was due");
    load.check()?;
    println!("a certificate that would soon have expired was replaced on three replicas: {}", load.report());

    controller.terminate().await?;
    let longer = ["--cert-authority-validity=438000h", "--cert-authority-overlap=2s"];
    controller = scene.start_controller(&longer).await?;
    let third = scene.settled(Some(&second)).await?;
    ensure!(third.authority != second.authority, "the authority was due");
    load.check()?;
    println!("an authority that would soon have expired was changed on three replicas: {}", load.report());

    scene.delete_secret(AUTHORITY).await?;
    let fourth = scene.settled(Some(&third)).await?;
    ensure!(fourth.authority != third.authority, "the authority was lost");
    load.check()?;
    println!("an authority that was deleted was changed on three replicas: {}", load.report());

    scene.delete_secret(SERVING).await?;
    scene.settled(Some(&fourth)).await?;
    println!("a certificate that was deleted was replaced on three replicas: {}", load.report());
    load.end().await?;
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn whatever_is_damaged_is_put_right_and_by_the_leader_alone() -> Result<()> {
    let cluster = Cluster::start().await?;
    let scene = Scene::install(&cluster, 1).await?;
    // As HNC's manifests do.
    damage::create(&scene, vec![]).await?;
    let leader = scene.start_controller(&["--cert-authority-overlap=2s"]).await?;
    let mut settled = scene.settled(None).await?;
    let proxy = Proxy::start(&cluster)?;
    let launch = Launch { server: Some(proxy.url()), ..Launch::default() };
    let follower = scene.product.start(Component::Controller, launch).await?;

    println!("the webhook's certificate:");
    for (what, texts, anew) in damage::of_serving(&scene).await? {
        damage::patch(&scene, SERVING, &texts).await?;
        settled = damage::put_right(&scene, &settled, anew, what).await?;
    }
    scene.delete_secret(SERVING).await?;
    settled = damage::put_right(&scene, &settled, true, "deleted").await?;

    println!("the registrations:");
    let foreign = serde_json::to_value(ByteString(Foreign::new()?.pem().into_bytes()))?;
    for registration in Registration::all(&scene) {
        registration
            .damage("another authority", |all| all[0]["clientConfig"]["caBundle"] = foreign.clone())
            .await?;
        let remove =
            |entry: &mut Value| drop(entry["clientConfig"].as_object_mut().map(|it| it.remove("caBundle")));
        registration.damage("no authority anywhere", |all| all.iter_mut().for_each(remove)).await?;
    }

    println!("the authority:");
    let mut authority = settled.authority.clone();
    for (what, texts) in damage::of_authority()? {
        damage::patch(&scene, AUTHORITY, &texts).await?;
        authority = damage::replaced(&scene, &authority, what).await?;
    }
    scene.delete_secret(AUTHORITY).await?;
    let authority = damage::replaced(&scene, &authority, "deleted").await?;
    let settled = scene.settled(Some(&settled)).await?;
    ensure!(settled.authority == authority, "the change of authority has come to its end");

    ensure!(proxy.writes() == 0, "a controller that does not lead has written");
    println!("a second controller has written nothing meanwhile");
    follower.terminate().await?;
    leader.terminate().await?;
    only_authorities(&scene).await?;
    println!("with --manage-registrations=false the authorities alone are put right");
    Ok(())
}

/// Whoever changes registrations by hand still has certificates that work.
async fn only_authorities(scene: &Scene<'_>) -> Result<()> {
    let controller = scene.start_controller(&["--manage-registrations=false"]).await?;
    let [registration, _] = Registration::all(scene);
    registration.change(|all| all[0]["timeoutSeconds"] = 17.into()).await?;
    registration
        .damage("no authority", |all| {
            drop(all[0]["clientConfig"].as_object_mut().map(|it| it.remove("caBundle")));
        })
        .await?;
    let entries = registration.entries().await?;
    ensure!(entries[0]["timeoutSeconds"] == 17, "{entries}");
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_hnc_left_is_taken_over_without_a_refused_review() -> Result<()> {
    let cluster = Cluster::start().await?;
    let scene = Scene::install(&cluster, 1).await?;
    let foreign = Foreign::new()?;
    let left = foreign.sign()?;
    let (certificate, key) = (left.certificate, left.key);
    let texts = vec![
        ("tls.crt", certificate),
        ("tls.key", key),
        ("ca.crt", foreign.pem()),
        ("ca.key", foreign.key()),
    ];
    damage::create(&scene, texts).await?;
    let bundle = serde_json::to_value(ByteString(foreign.pem().into_bytes()))?;
    for registration in Registration::all(&scene) {
        let trust = |entry: &mut Value| entry["clientConfig"]["caBundle"] = bundle.clone();
        registration.change(|all| all.iter_mut().for_each(trust)).await?;
    }
    scene.reviewed().await?;

    let load = Load::start(&scene);
    let began = Instant::now();
    let controller = scene.start_controller(&["--cert-authority-overlap=2s"]).await?;
    let settled = scene.settled(None).await?;
    ensure!(settled.authority != certificates(foreign.pem().as_bytes())[0].to_vec());
    println!("what HNC left was replaced within {:.1?}, its key is gone: {}", began.elapsed(), load.report());
    load.end().await?;
    controller.terminate().await?;
    Ok(())
}
