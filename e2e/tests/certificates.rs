//! Certificates that hns makes itself: from a cluster without any to a rotation under load, and their repair after damage.
//! Certificates from other sources are tested everywhere else.

#[cfg(test)]
mod certificates {
    pub(crate) mod damage;
    pub(crate) mod load;
    pub(crate) mod scene;
}

use std::time::Instant;

use anyhow::{Result, ensure};
use hns_api::names;
use hns_e2e::product::NAMESPACE;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Launch, Proxy, Replica, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;

use self::certificates::damage::{self, Foreign, Registration};
use self::certificates::load::Load;
use self::certificates::scene::{FORMER_AUTHORITY, SERVING, Scene};

#[tokio::test]
async fn from_nothing_through_changes_of_certificate_no_review_fails() -> Result<()> {
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
    // Less than a third of the requested year is left.
    controller = scene.start_controller(&["--cert-overlap=2s"]).await?;
    let second = scene.settled(Some(&first)).await?;
    load.check()?;
    println!("a certificate that would soon have expired was replaced on three replicas: {}", load.report());

    scene.delete_secret(SERVING).await?;
    scene.settled(Some(&second)).await?;
    println!("a certificate that was deleted was replaced on three replicas: {}", load.report());
    load.end().await?;
    nothing_outlives_the_cluster_role(&scene, &controller).await?;
    controller.terminate().await?;
    Ok(())
}

/// `helm uninstall` deletes the rights of the controller, and then its objects, which the controller would create again while the API
/// server still grants these rights. Here it keeps those of its Role.
async fn nothing_outlives_the_cluster_role(scene: &Scene<'_>, controller: &Replica) -> Result<()> {
    let config_maps: Api<ConfigMap> = Api::namespaced(scene.secrets().into_client(), NAMESPACE);
    let shared = [names::SETTINGS_CONFIG_MAP, names::MISSING_PARENTS];
    for name in shared {
        config_maps.delete(name, &DeleteParams::default()).await?;
    }
    let text = |error: kube::Error| error.to_string();
    let present = async || {
        let mut found = Vec::new();
        for name in shared {
            found.extend(config_maps.get_opt(name).await.map_err(text)?.map(|it| it.metadata));
        }
        found.extend(scene.secrets().get_opt(SERVING).await.map_err(text)?.map(|it| it.metadata));
        Ok::<_, String>(found)
    };
    eventually("all are created again, with an owner", PATIENCE, async || {
        let found = present().await?;
        let owned = found.iter().filter(|it| it.owner_references.as_ref().is_some_and(|all| all.len() == 1));
        if owned.count() == 3 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    let roles: Api<ClusterRole> = Api::all(config_maps.clone().into_client());
    roles.delete(names::CONTROLLER_CLUSTER_ROLE, &DeleteParams::default()).await?;
    eventually("all are deleted, and not created again", PATIENCE, async || {
        let (found, log) = (present().await?, controller.log());
        let tried = [SERVING, shared[0], shared[1]].map(|name| {
            let failed = |line: &str| line.contains(name) && line.contains(names::CONTROLLER_CLUSTER_ROLE);
            log.lines().any(failed)
        });
        if found.is_empty() && tried == [true; 3] { Ok(()) } else { Err(format!("{tried:?}, {found:?}")) }
    })
    .await
}

#[tokio::test]
async fn all_damage_is_repaired_by_the_leader_alone() -> Result<()> {
    let cluster = Cluster::start().await?;
    let scene = Scene::install(&cluster, 1).await?;
    // As in HNC's manifests.
    damage::create(&scene, SERVING, vec![]).await?;
    let leader = scene.start_controller(&["--cert-overlap=2s"]).await?;
    let settled = scene.settled(None).await?;
    let proxy = Proxy::start(&cluster)?;
    let launch = Launch { server: Some(proxy.url()), ..Launch::default() };
    let follower = scene.product.start(Component::Controller, launch).await?;

    println!("the webhook's certificate:");
    for (what, texts) in damage::of_serving()? {
        damage::patch(&scene, SERVING, &texts).await?;
        damage::restored(&scene, &settled, what).await?;
    }

    println!("the registrations:");
    let foreign = serde_json::to_value(ByteString(Foreign::new()?.pem().into_bytes()))?;
    for registration in Registration::all(&scene) {
        registration
            .damage("another authority", |all| {
                all.iter_mut().take(1).for_each(|entry| entry["clientConfig"]["caBundle"] = foreign.clone());
            })
            .await?;
        let remove =
            |entry: &mut Value| drop(entry["clientConfig"].as_object_mut().map(|it| it.remove("caBundle")));
        registration.damage("no authority anywhere", |all| all.iter_mut().for_each(remove)).await?;
    }

    ensure!(proxy.writes() == 0, "a controller that does not lead has written");
    println!("a second controller has written nothing meanwhile");
    follower.terminate().await?;
    leader.terminate().await?;
    only_authorities(&scene).await?;
    println!("with --manage-registrations=false what is trusted is restored all the same");
    Ok(())
}

/// A user who changes registrations by hand still has working certificates.
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

/// An earlier version stored the key of its authority in a Secret of its own, HNC beside the certificate.
#[tokio::test]
async fn what_an_authority_has_signed_is_taken_over_without_a_refused_review() -> Result<()> {
    let cluster = Cluster::start().await?;
    let scene = Scene::install(&cluster, 1).await?;
    let foreign = Foreign::new()?;
    let left = foreign.sign()?;
    let texts = vec![
        ("tls.crt", left.certificate),
        ("tls.key", left.key),
        ("ca.crt", foreign.pem()),
        ("ca.key", foreign.key()),
    ];
    damage::create(&scene, SERVING, texts).await?;
    let authority = vec![("tls.crt", foreign.pem()), ("tls.key", foreign.key()), ("ca.crt", foreign.pem())];
    damage::create(&scene, FORMER_AUTHORITY, authority).await?;
    let bundle = serde_json::to_value(ByteString(foreign.pem().into_bytes()))?;
    for registration in Registration::all(&scene) {
        let trust = |entry: &mut Value| entry["clientConfig"]["caBundle"] = bundle.clone();
        registration.change(|all| all.iter_mut().for_each(trust)).await?;
    }
    scene.reviewed().await?;

    let load = Load::start(&scene);
    let began = Instant::now();
    let controller = scene.start_controller(&["--cert-overlap=2s"]).await?;
    scene.settled(None).await?;
    println!("what an authority has signed was replaced within {:.1?}: {}", began.elapsed(), load.report());
    no_key_of_an_authority(&scene).await?;
    load.end().await?;
    controller.terminate().await?;
    Ok(())
}

/// The token of the webhook can read the key that the webhook serves with, and no other.
async fn no_key_of_an_authority(scene: &Scene<'_>) -> Result<()> {
    eventually("the key of the former authority is gone", PATIENCE, async || {
        let secrets = scene.readable_by_the_webhook().await.map_err(|error| error.to_string())?;
        let mut keys = Vec::new();
        for secret in secrets {
            let name = secret.metadata.name.unwrap_or_default();
            let data = secret.data.unwrap_or_default().into_iter();
            keys.extend(data.filter(|(_, bytes)| is_key(&bytes.0)).map(|(key, _)| format!("{name}/{key}")));
        }
        if keys == [format!("{SERVING}/tls.key")] { Ok(()) } else { Err(format!("{keys:?}")) }
    })
    .await
}

fn is_key(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains("PRIVATE KEY")
}
