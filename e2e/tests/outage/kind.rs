//! A propagated kind that may not be listed affects no other kind.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::product::{CONTROLLER_USER, WEBHOOK_USER};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal, stays};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::fixture::{SECONDS, Turn, turn};

const ROLES: &str = "roles.rbac.authorization.k8s.io";

#[tokio::test]
async fn a_kind_that_may_no_longer_be_listed_affects_no_other_and_catches_up() -> Result<()> {
    let turn = turn().await;
    let both = turn.start().await?;
    let steps = &turn.steps;
    plant(steps, "q").await?;
    role_is(steps, "q-leaf", &["get"]).await?;
    role_is(steps, "q-stray", &["get"]).await?;
    steps.set_parent("q-free", "q-root").await?;
    steps.set_parent("q-free", "").await?;
    both.shows(true, &format!("[+]{ROLES} ok")).await?;

    let rights = Rights::withdraw(&turn).await?;
    // An open watch was authorized when it began.
    both.proxies.iter().for_each(hns_e2e::Proxy::cut);
    for line in both.shows(true, &format!("[-]{ROLES} degraded: ")).await? {
        println!("{line}");
    }
    everything_else_goes_on(steps, "q").await?;
    steps.set_parent("q-stray", "").await?;
    steps.labelled(&["q-stray"]).await?;
    steps.binding_leaves(&["q-stray"], "viewers").await?;
    widen(steps, "q-root").await?;
    stays("copies of roles stay as they are", Duration::from_secs(3), async || {
        verbs(steps, "q-leaf").await.and_then(|verbs| equal(&verbs, &["get"]))?;
        verbs(steps, "q-stray").await.and_then(|verbs| equal(&verbs, &["get"]))
    })
    .await?;
    refused_for_roles(steps, "q").await?;

    rights.give_back().await?;
    let back = Instant::now();
    role_is(steps, "q-leaf", &["get", "list"]).await?;
    steps.binding_arrives(&["q-leaf"], "waiting", "q-root", "bob").await?;
    role_leaves(steps, "q-stray").await?;
    joins(steps, "q").await?;
    let took = back.elapsed();
    ensure!(took < SECONDS, "it took {took:?} to catch up");
    both.shows(true, &format!("[+]{ROLES} ok")).await?;
    println!("with the right back, roles had caught up after {took:.1?}");
    both.unharmed()?;
    ensure!(turn.webhook_only_asked()? > 0, "the webhook asks what users may do");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_may_not_be_listed_from_the_start_holds_nothing_up() -> Result<()> {
    let turn = turn().await;
    let rights = Rights::withdraw(&turn).await?;
    let both = turn.start_without_registrations().await?;
    for line in both.shows(true, &format!("[-]{ROLES} degraded: ")).await? {
        println!("{line}");
    }
    let steps = &turn.steps;
    steps.create_namespace("s-root").await?;
    steps.create_namespace("s-leaf").await?;
    steps.create_namespace("s-free").await?;
    refused_for_roles(steps, "s").await?;
    // The webhook cannot know of conflicts, neither of a namespace that joins nor of a source that is created above one, so the
    // test removes it.
    turn.product.uninstall_registrations().await?;
    eventually("without the webhook the leaf joins", PATIENCE, async || {
        steps.set_parent("s-leaf", "s-root").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.create_role("s-root", "reader", (&["get"], "", "pods")).await?;
    turn.product.install_registrations().await?;
    everything_else_goes_on(steps, "s").await?;
    stays("no role is written", Duration::from_secs(2), async || absent(steps, "s-leaf").await).await?;

    rights.give_back().await?;
    let back = Instant::now();
    role_is(steps, "s-leaf", &["get"]).await?;
    steps.binding_arrives(&["s-leaf"], "waiting", "s-root", "bob").await?;
    joins(steps, "s").await?;
    let took = back.elapsed();
    ensure!(took < SECONDS, "it took {took:?} to catch up");
    both.shows(true, &format!("[+]{ROLES} ok")).await?;
    println!("with the right given, roles had caught up after {took:.1?}");
    both.unharmed()?;
    turn.webhook_only_asked()?;
    Ok(())
}

/// A root with a role and a binding, two namespaces below it, and one beside it.
async fn plant(steps: &Steps, prefix: &str) -> Result<()> {
    let [root, leaf, stray, free] = ["root", "leaf", "stray", "free"].map(|name| format!("{prefix}-{name}"));
    steps.plant(&[(&root, ""), (&leaf, &root), (&stray, &root), (&free, "")]).await?;
    steps.create_role(&root, "reader", (&["get"], "", "pods")).await?;
    steps.create_binding(&root, "viewers", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&[&leaf, &stray], "viewers", &root, "alice").await
}

/// Bindings to a `ClusterRole` are propagated and labels written. Which Role a binding refers to cannot be known without Roles.
async fn everything_else_goes_on(steps: &Steps, prefix: &str) -> Result<()> {
    let [root, leaf, new] = ["root", "leaf", "new"].map(|name| format!("{prefix}-{name}"));
    steps.create_binding(&root, "waiting", ("Role", "reader"), "bob").await?;
    steps.create_binding(&root, "meanwhile", ("ClusterRole", "view"), "bob").await?;
    steps.binding_arrives(&[&leaf], "meanwhile", &root, "bob").await?;
    ensure!(
        steps.bindings(&leaf).get_opt("waiting").await?.is_none(),
        "a binding to an unknown Role was copied"
    );
    steps.create_namespace(&new).await?;
    steps.labelled(&[&new]).await?;
    steps.labelled(&[&leaf, &root]).await
}

/// What a new parent would overwrite cannot be known, and the answer says whose right is missing.
async fn refused_for_roles(steps: &Steps, prefix: &str) -> Result<()> {
    let status = refusal(steps.set_parent(&format!("{prefix}-free"), &format!("{prefix}-root")).await);
    ensure!((status.code, status.reason.as_str()) == (503, "ServiceUnavailable"), "{status:?}");
    for said in [ROLES, "hns-webhook", "list"] {
        ensure!(status.message.contains(said), "{said:?} is not in {}", status.message);
    }
    println!("joining a tree: {} {}", status.code, status.message);
    Ok(())
}

async fn joins(steps: &Steps, prefix: &str) -> Result<()> {
    eventually("a namespace may join the tree again", PATIENCE, async || {
        let joined = steps.set_parent(&format!("{prefix}-free"), &format!("{prefix}-root")).await;
        joined.map(drop).map_err(|error| error.to_string())
    })
    .await
}

async fn widen(steps: &Steps, namespace: &str) -> Result<()> {
    let rules = json!([{ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] }]);
    let patch = Patch::Merge(json!({ "rules": rules }));
    steps.roles(namespace).patch("reader", &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn verbs(steps: &Steps, namespace: &str) -> Result<Vec<String>, String> {
    let role = steps.roles(namespace).get("reader").await.map_err(|error| error.to_string())?;
    Ok(role.rules.into_iter().flatten().flat_map(|rule| rule.verbs).collect())
}

fn equal(verbs: &[String], wanted: &[&str]) -> Result<(), String> {
    if verbs == wanted { Ok(()) } else { Err(format!("{verbs:?}")) }
}

async fn role_is(steps: &Steps, namespace: &str, wanted: &[&str]) -> Result<()> {
    eventually(&format!("the role in {namespace} allows {wanted:?}"), PATIENCE, async || {
        verbs(steps, namespace).await.and_then(|verbs| equal(&verbs, wanted))
    })
    .await
}

async fn absent(steps: &Steps, namespace: &str) -> Result<(), String> {
    match steps.roles(namespace).get_opt("reader").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

async fn role_leaves(steps: &Steps, namespace: &str) -> Result<()> {
    eventually(&format!("the role leaves {namespace}"), PATIENCE, async || absent(steps, namespace).await)
        .await
}

/// The rules of both service accounts as they were, while they may not see roles. A test that fails leaves them so.
struct Rights<'t> {
    turn: &'t Turn,
    rules: Vec<(&'static str, Option<Vec<PolicyRule>>)>,
}

impl<'t> Rights<'t> {
    async fn withdraw(turn: &'t Turn) -> Result<Self> {
        let api: Api<ClusterRole> = Api::all(turn.steps.client.clone());
        let mut rights = Self { turn, rules: Vec::new() };
        for name in ["hns-webhook", "hns-webhook-propagation", "hns-controller", "hns-controller-propagation"]
        {
            let mut role = api.get(name).await?;
            rights.rules.push((name, role.rules.clone()));
            if name.ends_with("propagation") {
                role.rules = None;
            }
            for rule in
                role.rules.iter_mut().flatten().filter(|rule| rule.verbs.iter().any(|verb| verb == "list"))
            {
                rule.resources
                    .iter_mut()
                    .for_each(|resources| resources.retain(|resource| resource != "roles"));
            }
            api.replace(name, &PostParams::default(), &role).await?;
        }
        rights.in_force(false).await?;
        Ok(rights)
    }

    async fn give_back(self) -> Result<()> {
        let api: Api<ClusterRole> = Api::all(self.turn.steps.client.clone());
        for (name, rules) in &self.rules {
            let mut role = api.get(name).await?;
            role.rules.clone_from(rules);
            api.replace(name, &PostParams::default(), &role).await?;
        }
        self.in_force(true).await
    }

    async fn in_force(&self, wanted: bool) -> Result<()> {
        for user in [WEBHOOK_USER, CONTROLLER_USER] {
            let spec = SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("list".into()),
                    group: Some("rbac.authorization.k8s.io".into()),
                    resource: Some("roles".into()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let api: Api<SubjectAccessReview> = Api::all(self.turn.steps.client.clone());
            eventually(&format!("{user} may list roles: {wanted}"), PATIENCE, async || {
                let answer = api.create(&PostParams::default(), &review).await.context("asking");
                let status = answer.map_err(|error| format!("{error:#}"))?.status;
                let allowed = status.is_some_and(|status| status.allowed);
                if allowed == wanted { Ok(()) } else { Err(format!("{allowed}")) }
            })
            .await?;
        }
        Ok(())
    }
}
