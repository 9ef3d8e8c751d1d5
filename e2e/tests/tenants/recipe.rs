//! Applies the recipe and checks every promise of its text.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::annotations;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Kubectl, Options, Product, Steps, eventually, refusal};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::document::{Block, By, blocks, by};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tenants.md");
const TEAM: [&str; 3] = ["acme", "acme-dev", "acme-prod"];
const PIPELINE: &str = "system:serviceaccount:acme:pipeline";

/// A row of the table at the end of the document: who, with which group, what (verb, resource, API group), where, and whether it is
/// allowed.
type Right = (&'static str, &'static str, [&'static str; 3], &'static [&'static str], bool);

const RIGHTS: [Right; 24] = [
    ("alice", "acme-admins", ["create", "deployments", "apps"], &TEAM, true),
    ("alice", "acme-admins", ["create", "rolebindings", "rbac.authorization.k8s.io"], &TEAM, true),
    ("alice", "acme-admins", ["delete", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, true),
    ("alice", "acme-admins", ["update", "hierarchyconfigurations", "hnc.x-k8s.io"], &TEAM, true),
    ("alice", "acme-admins", ["create", "namespaces", ""], &["acme"], false),
    ("alice", "acme-admins", ["update", "resourcequotas", ""], &TEAM, false),
    ("alice", "acme-admins", ["update", "limitranges", ""], &TEAM, false),
    ("bob", "acme-developers", ["create", "deployments", "apps"], &TEAM, true),
    ("bob", "acme-developers", ["create", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, true),
    ("bob", "acme-developers", ["delete", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, true),
    ("ina", "acme-interns", ["create", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, true),
    ("ina", "acme-interns", ["delete", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, false),
    ("ina", "acme-interns", ["create", "deployments", "apps"], &TEAM, false),
    ("bob", "acme-developers", ["create", "rolebindings", "rbac.authorization.k8s.io"], &TEAM, false),
    ("bob", "acme-developers", ["update", "hierarchyconfigurations", "hnc.x-k8s.io"], &TEAM, false),
    (PIPELINE, "system:serviceaccounts", ["create", "deployments", "apps"], &TEAM, true),
    (PIPELINE, "system:serviceaccounts", ["delete", "deployments", "apps"], &TEAM, true),
    (PIPELINE, "system:serviceaccounts", ["get", "secrets", ""], &TEAM, false),
    (PIPELINE, "system:serviceaccounts", ["create", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, false),
    ("carol", "acme-on-call", ["create", "deployments", "apps"], &["acme-prod"], true),
    ("carol", "acme-on-call", ["create", "deployments", "apps"], &["acme", "acme-dev"], false),
    ("carol", "acme-on-call", ["get", "pods", ""], &["acme", "acme-dev"], false),
    ("eve", "strangers", ["get", "pods", ""], &TEAM, false),
    ("eve", "strangers", ["create", "subnamespaceanchors", "hnc.x-k8s.io"], &TEAM, false),
];

/// What is in every namespace of the team.
const EVERYWHERE: [&str; 8] = [
    "rolebinding/admins",
    "rolebinding/developers",
    "rolebinding/pipeline-deploys",
    "role/deploys",
    "limitrange/defaults",
    "resourcequota/size",
    "networkpolicy/own-tree-only",
    "serviceaccount/default",
];

/// The flag that the text names.
const FLAG: &str = "--managed-namespace-label=";

/// A pod without limits, for dry runs.
fn pod() -> Value {
    let context = json!({
        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let container = json!({ "name": "a", "image": "a", "securityContext": context });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "plain" }, "spec": { "containers": [container] } })
}

#[tokio::test]
async fn the_recipe_works_as_it_is_written() -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::shared().await;
    let text = std::fs::read_to_string(DOCUMENT)?;
    let flag = text.split('`').find(|code| code.starts_with(FLAG)).context("the text names no flag")?;
    let flags = || vec![flag.to_owned()];
    let options = Options { webhook_args: flags(), controller_args: flags(), ..Options::default() };
    let product = Product::install(cluster, options).await?;
    let replicas = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let blocks = blocks(&text)?;
    let told = |what: &str| println!("{:5.1} s: {what}", began.elapsed().as_secs_f32());
    told("hns runs");
    for block in &blocks {
        apply(cluster, block).await?;
    }
    told(&format!("{} blocks are applied", blocks.len()));
    let steps = Steps::of(cluster.admin());
    for namespace in &TEAM[1..] {
        steps.labelled(&[namespace, "acme", "tenants"]).await?;
    }
    arrived(cluster).await?;
    told("everything is in every namespace");
    rights(cluster).await?;
    told(&format!("{} rights are as the table says", RIGHTS.len()));
    copies_are_read_only(cluster).await?;
    pods_get_limits(cluster).await?;
    told("copies are read-only, pods get limits, quotas count");
    pods_are_restricted(cluster).await?;
    told("no pod is privileged, with any configuration of the team");
    network(cluster).await?;
    nothing_is_beyond_the_limits(cluster, &steps).await?;
    told("no way of creating or moving a namespace goes beyond the limits");
    no_namespace_leaves(cluster, &steps).await?;
    told("the tree label finds the team, and no namespace leaves it");
    tokio::try_join!(replicas.0.terminate(), replicas.1.terminate())?;
    Ok(())
}

/// By anchors, by the annotation and by `spec.parent`, also for a user with all rights; and where nothing judges, the controller
/// creates nothing.
async fn nothing_is_beyond_the_limits(cluster: &Cluster, steps: &Steps) -> Result<()> {
    let alice = Steps::of(cluster.client_as("alice", &["acme-admins"]));
    let refused = |status: Status, says: &str| {
        let is_right =
            status.code == 403 && status.message.contains(says) && status.message.contains("\"acme\"");
        ensure!(is_right, "{status:?} does not say {says:?}");
        Ok(())
    };
    refused(refusal(alice.create_anchor("acme-dev", "cert-manager").await), "must match \"acme-.*\"")?;
    alice.create_anchor("acme-dev", "acme-dev-one").await?;
    steps.labelled(&["acme-dev-one", "acme-dev", "acme", "tenants"]).await?;
    refused(refusal(steps.create_anchor("acme-dev-one", "acme-dev-two").await), "at most 2 levels below it")?;
    // The pending anchors count, too.
    for number in 4..=10 {
        alice.create_anchor("acme", &format!("acme-{number}")).await?;
    }
    refused(
        refusal(alice.create_anchor("acme-prod", "acme-11").await),
        "the limit of namespaces below it is 10",
    )?;
    steps.create_namespace("acme-other").await?;
    refused(refusal(steps.set_parent("acme-other", "acme").await), "the limit of namespaces below it is 10")?;
    let annotated = json!({ "metadata": { "annotations": { annotations::SUBNAMESPACE_OF: "acme" } } });
    let (api, annotated) = (steps.namespaces(), Patch::Merge(annotated));
    refused(
        refusal(api.patch("acme-other", &PatchParams::default(), &annotated).await),
        "the limit of namespaces below it is 10",
    )?;
    // Somewhere else it may be.
    steps.set_parent("acme-other", "tenants").await?;

    // As if no webhook had answered. The controller creates pending subnamespaces in the order of their names.
    for number in 4..=10 {
        steps.labelled(&[&format!("acme-{number}"), "acme", "tenants"]).await?;
    }
    let controller = Steps::of(cluster.client_as(CONTROLLER_USER, &["system:masters"]));
    controller.create_anchor("acme", "acme-12").await?;
    eventually("the anchor beyond the limit is forbidden", PATIENCE, async || {
        let anchor = steps.anchors("acme").get("acme-12").await.map_err(|error| error.to_string())?;
        let state = anchor.status.and_then(|it| it.status);
        if state.as_deref() == Some("Forbidden") { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await?;
    ensure!(steps.namespaces().get_opt("acme-12").await?.is_none(), "acme-12 was created");
    Ok(())
}

/// As the user would: what depends on what hns is still making is tried again, as the text says "within seconds".
async fn apply(cluster: &Cluster, block: &Block) -> Result<()> {
    eventually("the block can be applied", PATIENCE, async || {
        let by = by(block).map_err(|error| format!("{error:#}"))?;
        let apply = like(cluster.kubectl(), &by).args(["apply", "-f", "-"]).stdin(&block.text);
        apply.ok().await.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
}

fn like(kubectl: Kubectl, by: &By) -> Kubectl {
    match by {
        By::Administrator => kubectl,
        By::User(user, group) => kubectl.as_user(user, &[group]),
    }
}

async fn arrived(cluster: &Cluster) -> Result<()> {
    for namespace in TEAM {
        eventually(&format!("everything is in {namespace}"), PATIENCE, async || {
            let get = ["get", "--output=name", "--namespace", namespace];
            let found = cluster.kubectl().args(get).args(EVERYWHERE).ok().await;
            found.map(drop).map_err(|error| format!("{error:#}"))
        })
        .await?;
    }
    let elsewhere = ["get", "rolebinding/on-call", "--namespace=acme-dev"];
    let elsewhere = cluster.kubectl().args(elsewhere).run().await?;
    ensure!(elsewhere.stderr.contains("NotFound"), "what is made in acme-prod is in acme-dev: {elsewhere}");
    Ok(())
}

async fn rights(cluster: &Cluster) -> Result<()> {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.admin());
    for (user, group, [verb, resource, api_group], namespaces, allowed) in RIGHTS {
        for namespace in namespaces {
            let review: SubjectAccessReview = serde_json::from_value(json!({
                "metadata": {},
                "spec": {
                    "user": user,
                    "groups": [group, "system:authenticated"],
                    "resourceAttributes": {
                        "namespace": namespace, "verb": verb, "resource": resource, "group": api_group,
                    },
                },
            }))?;
            let what = format!("{user} may {verb} {resource} in {namespace}: {allowed}");
            eventually(&what, PATIENCE, async || {
                let answer = reviews.create(&PostParams::default(), &review).await;
                let status = answer.map_err(|error| error.to_string())?.status.unwrap_or_default();
                if status.allowed == allowed { Ok(()) } else { Err(format!("{status:?}")) }
            })
            .await?;
        }
    }
    Ok(())
}

/// Also for those whose role would allow it: network policies are in `admin`.
async fn copies_are_read_only(cluster: &Cluster) -> Result<()> {
    for object in ["networkpolicy/own-tree-only", "rolebinding/developers"] {
        let delete = async |more: &[&str]| {
            let delete = cluster.kubectl().as_user("alice", &["acme-admins"]);
            let outcome =
                delete.args(["delete", object, "--namespace=acme-dev"]).args(more.to_owned()).run().await;
            let outcome = outcome.map_err(|error| format!("{error:#}"))?;
            let refused = !outcome.success() && outcome.stderr.contains("acme");
            if refused { Ok(()) } else { Err(format!("alice deleted {object}: {outcome}")) }
        };
        // The API server takes up a moment after its kind was configured that a copy is guarded.
        let began = Instant::now();
        eventually(&format!("{object} is guarded"), PATIENCE, async || delete(&["--dry-run=server"]).await)
            .await?;
        println!("  {object} was guarded {:.1?} after it was asked for", began.elapsed());
        delete(&[]).await.map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

async fn pods_get_limits(cluster: &Cluster) -> Result<()> {
    for namespace in TEAM {
        // The quota has to be counted first.
        let made = eventually(&format!("a pod is accepted in {namespace}"), PATIENCE, async || {
            let create = ["create", "--dry-run=server", "--output=json", "-f", "-", "--namespace", namespace];
            let bob = cluster.kubectl().as_user("bob", &["acme-developers"]);
            bob.args(create).stdin(pod().to_string()).ok().await.map_err(|error| format!("{error:#}"))
        })
        .await?;
        let pod: Value = serde_json::from_str(&made)?;
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        ensure!(limits["cpu"] == "500m" && limits["memory"] == "256Mi", "{namespace}: {limits}");
        eventually(&format!("the quota of {namespace} counts"), Duration::from_secs(30), async || {
            let get = ["get", "resourcequota/size", "--output=jsonpath={.status.hard.pods}"];
            let hard = cluster.kubectl().args(get).args(["--namespace", namespace]).ok().await;
            match hard {
                Ok(pods) if pods == "20" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
    }
    Ok(())
}

/// Also after alice, who may configure everything in the team's namespaces, has asked for something else.
async fn pods_are_restricted(cluster: &Cluster) -> Result<()> {
    refused_pods(cluster).await?;
    let lax = json!([{ "key": "pod-security.kubernetes.io/enforce", "value": "privileged" }]);
    let patch = json!({ "spec": { "labels": lax } }).to_string();
    for (object, namespace) in [
        ("hierarchyconfiguration/hierarchy", "acme"),
        ("hierarchyconfiguration/hierarchy", "acme-prod"),
        ("subnamespaceanchor/acme-dev", "acme"),
    ] {
        let alice = cluster.kubectl().as_user("alice", &["acme-admins"]);
        alice.args(["patch", object, "-n", namespace, "--type=merge", "--patch", &patch]).ok().await?;
    }
    // The condition shows that the controller has seen what she asked for. A subnamespace's labels are those of its anchor.
    let steps = Steps::of(cluster.admin());
    for namespace in ["acme", "acme-dev"] {
        steps.reasons(namespace, &["OverriddenByAncestor"]).await?;
    }
    refused_pods(cluster).await
}

async fn refused_pods(cluster: &Cluster) -> Result<()> {
    let volume = json!([{ "name": "host", "hostPath": { "path": "/" } }]);
    for namespace in TEAM {
        let mut pod = pod();
        pod["spec"]["volumes"] = volume.clone();
        pod["spec"]["hostPID"] = true.into();
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
        let bob = cluster.kubectl().as_user("bob", &["acme-developers"]);
        let create = ["create", "-f", "-", "--namespace", namespace];
        let created = bob.args(create).stdin(pod.to_string()).run().await?;
        ensure!(!created.success(), "a pod with the host's files runs in {namespace}");
        ensure!(created.stderr.contains("violates PodSecurity \"restricted"), "{namespace}: {created}");
    }
    Ok(())
}

/// The policy's selector matches the team's namespaces and no others.
async fn network(cluster: &Cluster) -> Result<()> {
    let label = "--selector=acme.tree.hnc.x-k8s.io/depth";
    let found = cluster.kubectl().args(["get", "namespaces", label, "--output=name"]).ok().await?;
    let found: Vec<&str> = found.lines().map(|line| line.trim_start_matches("namespace/")).collect();
    ensure!(found == TEAM, "{found:?}");
    Ok(())
}

async fn no_namespace_leaves(cluster: &Cluster, steps: &Steps) -> Result<()> {
    steps.create_namespace("elsewhere").await?;
    for (namespace, parent) in [("acme-dev", "elsewhere"), ("acme", "")] {
        let alice = cluster.kubectl().as_user("alice", &["acme-admins"]);
        let patch = json!({ "spec": { "parent": parent } }).to_string();
        let patch = ["patch", "hierarchyconfiguration/hierarchy", "--type=merge", "--patch", &patch];
        let moved = alice.args(patch).args(["--namespace", namespace]).run().await?;
        ensure!(!moved.success(), "alice took {namespace} out of the tree");
    }
    Ok(())
}
