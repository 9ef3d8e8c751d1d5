//! With `--initial-admin`, the user who creates a subnamespace becomes its first administrator: only that user, only there, and
//! only then.

use std::time::Duration;

use anyhow::{Result, ensure};
use hns_api::{SubnamespaceAnchor, annotations};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal, stays};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::Structure;
use super::workshop::{Workshop, workshop};

#[tokio::test]
async fn the_creator_of_a_subnamespace_becomes_its_first_administrator() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&["--initial-admin"]).await?;
    steps.create_namespace("fi-root").await?;
    steps.create_role("fi-root", "asks", (&["create"], hns_api::GROUP, "subnamespaceanchors")).await?;
    steps.create_binding("fi-root", "asks", ("Role", "asks"), "ida").await?;
    let ida = Steps::of(workshop.cluster.client_as("ida", &[]));
    eventually("ida may ask, and what she creates is recorded", PATIENCE, async || {
        let anchor = serde_json::from_value(json!({ "metadata": { "name": "fi-child" } }));
        let anchor: SubnamespaceAnchor = anchor.map_err(|error| error.to_string())?;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let created =
            ida.anchors("fi-root").create(&dry, &anchor).await.map_err(|error| error.to_string())?;
        let recorded = created.metadata.annotations.unwrap_or_default();
        let creator = recorded.get(annotations::INITIAL_ADMIN).map(String::as_str);
        if creator == Some("ida") { Ok(()) } else { Err(format!("{recorded:?}")) }
    })
    .await?;
    ida.create_anchor("fi-root", "fi-child").await?;
    // Without an anchor, by a user who may create namespaces.
    let ian = Steps::of(workshop.cluster.client_as("ian", &["system:masters"]));
    let direct = json!({ "metadata": { "name": "fi-direct", "annotations": { annotations::SUBNAMESPACE_OF: "fi-root" } } });
    ian.namespaces().create(&PostParams::default(), &serde_json::from_value(direct)?).await?;

    for (user, namespace) in [("ida", "fi-child"), ("ian", "fi-direct")] {
        eventually(&format!("{user} administers {namespace}"), PATIENCE, async || {
            let (_, shown) = steps.marks(namespace).await.map_err(|error| error.to_string())?;
            let allowed = may(&workshop, user, namespace).await.map_err(|error| error.to_string())?;
            if allowed && !shown.contains_key(annotations::INITIAL_ADMIN) {
                Ok(())
            } else {
                Err(format!("{allowed}, {shown:?}"))
            }
        })
        .await?;
    }
    for (user, namespace) in [("ida", "fi-root"), ("ida", "fi-direct"), ("ian", "fi-child")] {
        ensure!(!may(&workshop, user, namespace).await?, "{user} administers {namespace}");
    }
    for (user, namespace) in [("ida", "fi-child"), ("ian", "fi-direct")] {
        let binding = steps.bindings(namespace).get(&format!("hns-initial-admin-{namespace}")).await?;
        assert_eq!(
            (binding.role_ref.kind.as_str(), binding.role_ref.name.as_str()),
            ("ClusterRole", "admin")
        );
        let subjects = binding.subjects.unwrap_or_default();
        assert_eq!(subjects.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), [user]);
    }
    only_oneself_can_be_named(&ida, &ian).await?;
    the_creator_of_a_root_gets_nothing(&workshop).await?;
    one_below_anothers_has_its_own(&workshop).await?;
    a_later_anchor_gives_no_rights(&workshop).await?;
    ensure!(
        !may(&workshop, "eve", "fi-child").await?,
        "the creator of a lost anchor becomes admin of what it is about"
    );
    running.end().await?;

    let running = workshop.run(&[]).await?;
    eventually("creators are no longer recorded", PATIENCE, async || {
        let get = ["get", "mutatingwebhookconfiguration", "-o", "jsonpath={.items[*].webhooks[*].name}"];
        let names = workshop.cluster.kubectl().args(get).ok().await.map_err(|error| error.to_string())?;
        if names.contains("initialadmin") { Err(names) } else { Ok(()) }
    })
    .await?;
    ida.create_anchor("fi-root", "fi-later").await?;
    steps.anchor_shows("fi-root", "fi-later", "Ok").await?;
    steps.labelled(&["fi-later", "fi-root"]).await?;
    stays("ida does not administer what she creates now", Duration::from_secs(1), async || {
        let allowed = may(&workshop, "ida", "fi-later").await.map_err(|error| error.to_string())?;
        if allowed { Err("she does".into()) } else { Ok(()) }
    })
    .await?;
    running.end().await
}

/// Whether a user may grant rights in a namespace, as its administrators may.
async fn may(workshop: &Workshop, user: &str, namespace: &str) -> Result<bool> {
    let ask = ["auth", "can-i", "create", "rolebindings.rbac.authorization.k8s.io", "-n", namespace];
    Ok(workshop.cluster.kubectl().as_user(user, &[]).args(ask).run().await?.success())
}

/// Not in a new anchor, not in a new namespace, and not in an existing one of either.
async fn only_oneself_can_be_named(ida: &Steps, ian: &Steps) -> Result<()> {
    let named = |user: &str| json!({ "annotations": { annotations::INITIAL_ADMIN: user } });
    let mut anchor = json!({ "metadata": named("eve") });
    anchor["metadata"]["name"] = json!("fi-forged");
    let anchor: SubnamespaceAnchor = serde_json::from_value(anchor)?;
    refused(ida.anchors("fi-root").create(&PostParams::default(), &anchor).await);

    let mut namespace = json!({ "metadata": named("eve") });
    namespace["metadata"]["name"] = json!("fi-forged");
    for parent in [Value::Null, json!("fi-root")] {
        namespace["metadata"]["annotations"][annotations::SUBNAMESPACE_OF] = parent;
        let mut object = namespace.clone();
        if object["metadata"]["annotations"][annotations::SUBNAMESPACE_OF].is_null() {
            object["metadata"]["annotations"] = named("eve")["annotations"].clone();
        }
        let object: Namespace = serde_json::from_value(object)?;
        refused(ian.namespaces().create(&PostParams::default(), &object).await);
    }
    // Later, not even oneself.
    for user in ["ian", "eve"] {
        let patch = Patch::Merge(json!({ "metadata": named(user) }));
        let later = PatchParams::default();
        refused(ian.anchors("fi-root").patch("fi-child", &later, &patch).await);
        for namespace in ["fi-child", "fi-direct", "fi-root"] {
            refused(ian.namespaces().patch(namespace, &later, &patch).await);
        }
    }
    Ok(())
}

/// A user who may only create namespaces names themselves on a namespace that is no subnamespace. Even past the webhook the
/// controller creates no binding.
async fn the_creator_of_a_root_gets_nothing(workshop: &Workshop) -> Result<()> {
    let steps = &workshop.steps;
    let creates = ["create", "clusterrole", "fi-creates", "--verb=create", "--resource=namespaces"];
    workshop.cluster.kubectl().args(creates).ok().await?;
    let binds = ["create", "clusterrolebinding", "fi-creates", "--clusterrole=fi-creates", "--user=nora"];
    workshop.cluster.kubectl().args(binds).ok().await?;
    let nora = Steps::of(workshop.cluster.client_as("nora", &[]));
    let named = |name: &str| {
        let object =
            json!({ "metadata": { "name": name, "annotations": { annotations::INITIAL_ADMIN: "nora" } } });
        serde_json::from_value::<Namespace>(object)
    };
    eventually("nora may create namespaces", PATIENCE, async || {
        nora.create_namespace("fi-noras").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    refused(nora.namespaces().create(&PostParams::default(), &named("fi-plain")?).await);
    let slipped = Steps::of(super::scene::past_the_rules(workshop.cluster));
    slipped.namespaces().create(&PostParams::default(), &named("fi-slipped")?).await?;
    eventually("the annotation goes", PATIENCE, async || {
        let (_, shown) = steps.marks("fi-slipped").await.map_err(|error| error.to_string())?;
        if shown.contains_key(annotations::INITIAL_ADMIN) { Err(format!("{shown:?}")) } else { Ok(()) }
    })
    .await?;
    for name in ["fi-plain", "fi-slipped", "fi-noras"] {
        ensure!(!may(workshop, "nora", name).await?, "nora administers {name}");
    }
    Ok(())
}

fn refused<T: std::fmt::Debug>(result: Result<T, kube::Error>) {
    let status = refusal(result);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    assert!(status.message.contains(annotations::INITIAL_ADMIN), "{}", status.message);
}

/// Below another user's subnamespace, whose binding propagates to it, the creator still gets a binding.
async fn one_below_anothers_has_its_own(workshop: &Workshop) -> Result<()> {
    let steps = &workshop.steps;
    steps.create_binding("fi-root", "eve-asks", ("Role", "asks"), "eve").await?;
    steps.binding_arrives(&["fi-child"], "eve-asks", "fi-root", "eve").await?;
    let eve = Steps::of(workshop.cluster.client_as("eve", &[]));
    eventually("eve may ask", PATIENCE, async || {
        eve.create_anchor("fi-child", "fi-grandchild").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.anchor_shows("fi-child", "fi-grandchild", "Ok").await?;
    steps.labelled(&["fi-grandchild", "fi-child", "fi-root"]).await?;
    for user in ["eve", "ida"] {
        eventually(&format!("{user} administers fi-grandchild"), PATIENCE, async || {
            let allowed = may(workshop, user, "fi-grandchild").await.map_err(|error| error.to_string())?;
            if allowed { Ok(()) } else { Err("not yet".into()) }
        })
        .await?;
    }
    Ok(())
}

/// An anchor that is created when its subnamespace already exists gives its creator no rights.
async fn a_later_anchor_gives_no_rights(workshop: &Workshop) -> Result<()> {
    let steps = &workshop.steps;
    // With a child below it, the subnamespace does not go with its anchor.
    let slipped = Steps::of(super::scene::past_the_rules(workshop.cluster));
    slipped.anchors("fi-root").delete("fi-child", &DeleteParams::default()).await?;
    eventually("the anchor goes", PATIENCE, async || {
        match steps.anchors("fi-root").get_opt("fi-child").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let eve = Steps::of(workshop.cluster.client_as("eve", &[]));
    eventually("eve may ask", PATIENCE, async || {
        eve.create_anchor("fi-root", "fi-child").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let anchor = steps.anchor_shows("fi-root", "fi-child", "Ok").await?;
    let recorded = anchor.metadata.annotations.unwrap_or_default();
    ensure!(recorded.get(annotations::INITIAL_ADMIN).is_none_or(|it| it == "eve"), "{recorded:?}");
    stays("it creates no binding", Duration::from_secs(1), async || {
        let binding = steps
            .bindings("fi-child")
            .get("hns-initial-admin-fi-child")
            .await
            .map_err(|it| it.to_string())?;
        let (_, shown) = steps.marks("fi-child").await.map_err(|error| error.to_string())?;
        let subjects = binding.subjects.unwrap_or_default();
        let is_idas = subjects.iter().all(|it| it.name == "ida");
        if is_idas && !shown.contains_key(annotations::INITIAL_ADMIN) {
            Ok(())
        } else {
            Err(format!("{subjects:?} {shown:?}"))
        }
    })
    .await
}
