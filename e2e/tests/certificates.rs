//! Certificates that hns makes itself: from a cluster without any to a change of authority under load, and whatever damages
//! them. Certificates that others bring are shown everywhere else.

#[cfg(test)]
mod certificates {
    pub(crate) mod balancer;
    pub(crate) mod load;
    pub(crate) mod scene;
}

use std::time::Instant;

use anyhow::{Result, ensure};
use hns_e2e::Cluster;

use self::certificates::load::Load;
use self::certificates::scene::{AUTHORITY, SERVING, Scene};

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
