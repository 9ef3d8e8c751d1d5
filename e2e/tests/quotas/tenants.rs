//! Tenants with real rights cannot use more than a quota above allows: neither with the role `edit` in the subtree, nor with all
//! rights in one namespace.

use anyhow::{Result, ensure};
use hns_api::names::{DERIVED_QUOTA, QUOTA_LEDGER};
use hns_api::{annotations, labels};
use hns_cluster::api::Api;
use hns_e2e::Steps;
use hns_e2e::product::NAMESPACE;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Service};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{Scene, numbers, scene, service};

/// Everything that a tenant may try on the derived quota of a namespace. Names what succeeded.
async fn attacks(client: &Client, namespace: &str) -> Vec<String> {
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    let mut succeeded = Vec::new();
    let mut note = |what: String, succeeds: bool| {
        if succeeds {
            succeeded.push(what);
        }
    };
    let apply = PatchParams::apply("tenant").force();
    let changes = [
        json!({ "spec": { "hard": { "services": "9" } } }),
        json!({ "spec": { "hard": null } }),
        json!({ "metadata": { "labels": { labels::HRQ: null } } }),
        json!({ "metadata": { "annotations": { annotations::HRQ_SOURCES: null } } }),
        json!({ "metadata": { "annotations": { annotations::HRQ_SOURCES: "other/budget@0" } } }),
        json!({ "metadata": { "finalizers": ["quota.test/held"] } }),
        json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000" }] } }),
    ];
    for change in changes {
        let patched =
            quotas.patch(DERIVED_QUOTA, &PatchParams::default(), &Patch::Merge(change.clone())).await;
        note(format!("patch {change}"), patched.is_ok());
        let mut object = change.clone();
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("ResourceQuota");
        object["metadata"]["name"] = json!(DERIVED_QUOTA);
        note(
            format!("apply {change}"),
            quotas.patch(DERIVED_QUOTA, &apply, &Patch::Apply(object)).await.is_ok(),
        );
    }
    for status in [
        json!({ "status": { "used": { "services": "0" } } }),
        json!({ "status": { "used": { "services": "-9" } } }),
        json!({ "status": { "used": null } }),
        json!({ "status": { "hard": { "services": "9" } } }),
        json!({ "status": null }),
    ] {
        let patched =
            quotas.patch_status(DERIVED_QUOTA, &PatchParams::default(), &Patch::Merge(status.clone())).await;
        note(format!("patch the status {status}"), patched.is_ok());
    }
    note("delete".into(), quotas.delete(DERIVED_QUOTA, &DeleteParams::default()).await.is_ok());
    let all = quotas.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    note("delete all".into(), all.is_ok());
    let ledgers: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let empty = Patch::Merge(json!({ "data": { "ledger.json": "{}" } }));
    note("read the ledger".into(), ledgers.get(QUOTA_LEDGER).await.is_ok());
    note(
        "write the ledger".into(),
        ledgers.patch(QUOTA_LEDGER, &PatchParams::default(), &empty).await.is_ok(),
    );
    note("delete the ledger".into(), ledgers.delete(QUOTA_LEDGER, &DeleteParams::default()).await.is_ok());
    succeeded
}

/// A root with a quota of two Services that are used up, and a child with the tenant's rights.
async fn family(scene: &Scene<'_>, root: &str, child: &str) -> Result<ResourceQuota> {
    scene.steps.plant(&[(root, ""), (child, root)]).await?;
    scene.limit(root, "budget", json!({ "services": "2" })).await?;
    scene.serve_all(root, &["one"]).await?;
    scene.serve_all(child, &["two"]).await?;
    scene.uses(root, "budget", &[("services", "2")]).await?;
    scene.derived(child, &[("services", "2")]).await
}

async fn is_untouched(scene: &Scene<'_>, child: &str, before: &ResourceQuota) -> Result<()> {
    let after = scene.core(child).get(DERIVED_QUOTA).await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.labels, before.metadata.labels);
    ensure!(after.metadata.owner_references.is_none() && after.metadata.finalizers.is_none(), "{after:?}");
    let limits = |quota: &ResourceQuota| numbers(quota.spec.clone().unwrap_or_default().hard.as_ref());
    assert_eq!(limits(&after), limits(before));
    let status = after.status.unwrap_or_default();
    assert_eq!(numbers(status.hard.as_ref()), limits(before));
    assert_eq!(numbers(status.used.as_ref()), numbers(Some(&super::scene::amounts(&[("services", "1")]))));
    Ok(())
}

/// The tenant's own quotas cannot widen anything, and more Services are refused.
async fn cannot_grow(scene: &Scene<'_>, client: &Client, child: &str) -> Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), child);
    let hrqs: Api<hns_api::HierarchicalResourceQuota> = Api::namespaced(client.clone(), child);
    let wide: Value = json!({ "metadata": { "name": "wide" }, "spec": { "hard": { "services": "9" } } });
    hrqs.create(&PostParams::default(), &serde_json::from_value(wide)?).await?;
    scene.enforced(child, "wide").await?;
    let used =
        Patch::Merge(json!({ "status": { "used": { "services": "-9" }, "hard": { "services": "99" } } }));
    hrqs.patch("wide", &PatchParams::default(), &used).await?;
    for name in ["three", "four"] {
        let refused = super::scene::persistently("a tenant creates a Service", async || {
            services.create(&PostParams::default(), &service(name)).await
        })
        .await?;
        let status = hns_e2e::refusal(refused);
        ensure!(
            status.code == 403 && status.message.contains("exceeded hierarchical quota"),
            "{}",
            status.message
        );
    }
    scene.uses(child, "wide", &[("services", "1")]).await
}

#[tokio::test]
async fn an_editor_of_a_subtree_cannot_use_more_than_the_quota_above_allows() -> Result<()> {
    let scene = scene().await?;
    let before = family(&scene, "te-root", "te-child").await?;
    let client = tenant(&scene, "te-child", "edit", "edith").await?;
    let succeeded = attacks(&client, "te-child").await;
    ensure!(succeeded.is_empty(), "{succeeded:?}");
    is_untouched(&scene, "te-child", &before).await?;
    cannot_grow(&scene, &client, "te-child").await?;
    // The quota above is not the editor's.
    let above: Api<hns_api::HierarchicalResourceQuota> = Api::namespaced(client.clone(), "te-root");
    let wider = Patch::Merge(json!({ "spec": { "hard": { "services": "9" } } }));
    let status = hns_e2e::refusal(above.patch("budget", &PatchParams::default(), &wider).await);
    assert_eq!(status.code, 403);
    Ok(())
}

#[tokio::test]
async fn a_user_with_all_rights_in_one_namespace_cannot_use_more_than_the_quota_above_allows() -> Result<()> {
    let scene = scene().await?;
    let before = family(&scene, "tc-root", "tc-child").await?;
    let client = tenant(&scene, "tc-child", "cluster-admin", "otto").await?;
    let succeeded = attacks(&client, "tc-child").await;
    ensure!(succeeded.is_empty(), "{succeeded:?}");
    is_untouched(&scene, "tc-child", &before).await?;
    cannot_grow(&scene, &client, "tc-child").await?;
    // Owners of quotas of their own may have them. They limit nothing more than this namespace.
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "tc-child");
    let own = json!({ "metadata": { "name": "own" }, "spec": { "hard": { "services": "1" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(own)?).await?;
    quotas.delete("own", &DeleteParams::default()).await.map(drop)?;
    // The namespace cannot leave the tree either.
    let moved = hns_e2e::refusal(Steps::of(client).set_parent("tc-child", "").await);
    ensure!((401..=403).contains(&moved.code), "{moved:?}");
    Ok(())
}

/// Finalizers keep objects in a namespace that is being deleted. Its derived quota is deleted before.
#[tokio::test]
async fn objects_that_stay_in_a_deleted_subnamespace_count() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("ts-root", "")]).await?;
    scene.limit("ts-root", "budget", json!({ "services": "2" })).await?;
    let tenant = Steps::of(tenant(&scene, "ts-root", "edit", "stella").await?);
    tenant.create_anchor("ts-root", "ts-sub").await?;
    scene.derived("ts-sub", &[("services", "2")]).await?;
    granted(&tenant.client, "ts-sub").await?;
    scene.serve_all("ts-sub", &["one", "two"]).await?;
    scene.uses("ts-root", "budget", &[("services", "2")]).await?;
    let services: Api<Service> = Api::namespaced(tenant.client.clone(), "ts-sub");
    let held = Patch::Merge(json!({ "metadata": { "finalizers": ["quota.test/held"] } }));
    for name in ["one", "two"] {
        services.patch(name, &PatchParams::default(), &held).await?;
    }
    let anchors: Api<hns_api::SubnamespaceAnchor> = Api::namespaced(tenant.client.clone(), "ts-root");
    anchors.delete("ts-sub", &DeleteParams::default()).await?;
    scene.not_derived("ts-sub").await?;
    scene.refused("ts-root", "three").await?;
    let free = json!({ "metadata": { "finalizers": null } });
    for name in ["one", "two"] {
        scene.patch_service("ts-sub", name, free.clone()).await?;
    }
    scene.uses("ts-root", "budget", &[("services", "0")]).await?;
    scene.serve_all("ts-root", &["three"]).await
}

/// Restrictions and rights from above must arrive.
#[tokio::test]
async fn a_quota_cannot_keep_out_what_is_copied_from_above() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("tk-root", ""), ("tk-child", "tk-root")]).await?;
    let client = tenant(&scene, "tk-child", "edit", "kurt").await?;
    let quotas: Api<hns_api::HierarchicalResourceQuota> = Api::namespaced(client, "tk-child");
    for resource in [
        "count/networkpolicies.networking.k8s.io",
        "resourcequotas",
        "count/rolebindings.rbac.authorization.k8s.io",
    ] {
        let quota = json!({ "metadata": { "name": "wall" }, "spec": { "hard": { resource: "0" } } });
        let status =
            hns_e2e::refusal(quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await);
        ensure!(status.code == 422 && status.message.contains(resource), "{}", status.message);
    }
    Ok(())
}

/// A quota whose status cannot be written would keep limits from above waiting.
#[tokio::test]
async fn a_quota_too_large_for_a_status_does_not_hold_up_limits_from_above() -> Result<()> {
    let scene = scene().await?;
    scene.steps.plant(&[("tl-root", ""), ("tl-child", "tl-root")]).await?;
    let client = tenant(&scene, "tl-child", "edit", "lars").await?;
    let quotas: Api<hns_api::HierarchicalResourceQuota> = Api::namespaced(client, "tl-child");
    let labels: serde_json::Map<String, Value> =
        (0..4_500).map(|at| (format!("{at:063}"), json!(format!("{at:063}")))).collect();
    let forged = json!([{ "type": "Enforced", "status": "True", "reason": "Forged", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let quota = json!({
        "metadata": { "name": "large", "labels": labels },
        "spec": { "hard": { "services": "9" } },
        "status": { "hard": { "services": "9" }, "conditions": forged },
    });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    scene.serve_all("tl-child", &["one"]).await?;
    scene.limit("tl-root", "budget", json!({ "services": "1" })).await?;
    scene.refused("tl-child", "two").await.map(drop)
}

/// The client of a user who has this role in one namespace.
async fn tenant(scene: &Scene<'_>, namespace: &str, role: &str, user: &str) -> Result<Client> {
    scene.steps.create_binding(namespace, "tenants", ("ClusterRole", role), user).await?;
    let client = scene.cluster.client_as(user, &[]);
    granted(&client, namespace).await?;
    Ok(client)
}

/// Waits until the API server knows the binding.
async fn granted(client: &Client, namespace: &str) -> Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    hns_e2e::eventually("the binding counts", hns_e2e::steps::PATIENCE, async || {
        services.list_metadata(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await
}
