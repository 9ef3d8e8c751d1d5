//! Managed labels and annotations: who may change those of an anchor, and which labels on a namespace may be removed.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use hns_api::SubnamespaceAnchor;
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Steps, eventually, refusal};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use super::scene::Structure;
use super::workshop::{Workshop, workshop};

const ENFORCE: &str = "structure.test/enforce";
const MANAGED: [&str; 2] =
    ["--managed-namespace-label=structure.test/.*", "--managed-namespace-annotation=structure.test/.*"];

fn labels(value: &str) -> Value {
    json!({ "labels": [{ "key": ENFORCE, "value": value }] })
}

fn anchor(name: &str, spec: &Value) -> Result<SubnamespaceAnchor> {
    Ok(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
}

async fn labelled(steps: &Steps, namespace: &str, key: &str, wanted: Option<&str>) -> Result<()> {
    eventually(&format!("{key} of {namespace} is {wanted:?}"), PATIENCE, async || {
        let (labels, _) = steps.marks(namespace).await.map_err(|error| error.to_string())?;
        let seen = labels.get(key).map(String::as_str);
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await
}

/// A label that the API server refuses keeps out neither tree labels nor restrictions. Levels of Pod Security are refused at once.
#[tokio::test]
async fn a_label_that_is_refused_keeps_out_no_other() -> Result<()> {
    const UNWANTED: &str = "structure.test/unwanted";
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let pod_security = "--managed-namespace-label=pod-security.kubernetes.io/.*";
    let running = workshop.run(&[MANAGED[0], MANAGED[1], pod_security]).await?;
    steps.plant(&[("mu-root", ""), ("mu-own", ""), ("mu-next", "")]).await?;
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["namespaces"] });
    let expression = format!("!('{UNWANTED}' in object.metadata.?labels.orValue({{}}))");
    let objects = [
        (
            "ValidatingAdmissionPolicy",
            json!({ "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": expression, "message": "not with us" }] }),
        ),
        (
            "ValidatingAdmissionPolicyBinding",
            json!({ "policyName": "mu-refusal", "validationActions": ["Deny"],
            "matchResources": { "namespaceSelector": { "matchLabels": { "mu-refused": "yes" } } } }),
        ),
    ];
    for (kind, spec) in objects {
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "mu-refusal" }, "spec": spec });
        let apply = ["apply", "--server-side", "-f", "-"];
        workshop.cluster.kubectl().args(apply).stdin(object.to_string()).ok().await?;
    }
    for name in ["mu-own", "mu-next"] {
        steps.change_namespace(name, json!({ "metadata": { "labels": { "mu-refused": "yes" } } })).await?;
        let label = |value: &str| json!({ "metadata": { "labels": { UNWANTED: value } } });
        eventually("the policy is in force", PATIENCE, async || {
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            match steps.namespaces().patch(name, &params, &Patch::Merge(label("1"))).await {
                Err(kube::Error::Api(status)) if status.message.contains("not with us") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
        let unwanted = json!([{ "key": UNWANTED, "value": "1" }]);
        let asked =
            json!({ "labels": unwanted, "annotations": [{ "key": "structure.test/note", "value": "n" }] });
        steps.configure(name, asked).await?;
        steps.set_parent(name, "mu-root").await?;
    }
    steps.labelled(&["mu-own", "mu-root"]).await?;
    steps.labelled(&["mu-next", "mu-root"]).await?;
    steps.configure("mu-root", labels("restricted")).await?;
    for name in ["mu-own", "mu-next"] {
        labelled(steps, name, ENFORCE, Some("restricted")).await?;
        labelled(steps, name, UNWANTED, None).await?;
        let (_, annotations) = steps.marks(name).await?;
        ensure!(annotations.get("structure.test/note").is_some_and(|it| it == "n"), "{annotations:?}");
    }
    steps.create_binding("mu-root", "late", ("ClusterRole", "view"), "vera").await?;
    steps.binding_arrives(&["mu-own"], "late", "mu-root", "vera").await?;
    let delete = ["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "mu-refusal"];
    workshop.cluster.kubectl().args(delete).ok().await?;

    let bogus = json!({ "labels": [{ "key": "pod-security.kubernetes.io/warn", "value": "bogus" }] });
    let refused = steps.configure("mu-own", bogus).await;
    let text = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(text.contains("a level of Pod Security"), "{text}");
    running.end().await
}

/// `ed` has the role `edit` in the parent, with all rights on anchors, and no right on hierarchies.
#[tokio::test]
async fn an_editor_of_the_parent_cannot_replace_what_an_admin_has_configured() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&MANAGED).await?;
    steps.plant(&[("mk-top", ""), ("mk-root", "mk-top")]).await?;
    let bind = ["create", "rolebinding", "edits", "-n", "mk-root", "--clusterrole=edit", "--user=ed"];
    workshop.cluster.kubectl().args(bind).ok().await?;
    steps.make_admin("mk-root", "rita").await?;
    let ed = Steps::of(workshop.cluster.client_as("ed", &[]));
    let rita = Steps::of(workshop.cluster.client_as("rita", &[]));
    let (create, update) = (PostParams::default(), PatchParams::default());

    // Of a subnamespace of one's own making the keys are free.
    eventually("ed may ask", PATIENCE, async || {
        let anchor = anchor("mk-eds", &labels("privileged")).map_err(|error| error.to_string())?;
        ed.anchors("mk-root").create(&create, &anchor).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    labelled(steps, "mk-eds", ENFORCE, Some("privileged")).await?;
    let restricted = Patch::Merge(json!({ "spec": labels("restricted") }));
    eventually("rita may configure", PATIENCE, async || {
        let patched = rita.anchors("mk-root").patch("mk-eds", &update, &restricted).await;
        patched.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    labelled(steps, "mk-eds", ENFORCE, Some("restricted")).await?;

    let api = ed.anchors("mk-root");
    for spec in
        [labels("privileged"), json!({ "labels": null }), json!({ "annotations": labels("x")["labels"] })]
    {
        let patch = Patch::Merge(json!({ "spec": spec }));
        unauthorized(api.patch("mk-eds", &update, &patch).await);
    }
    // What leaves the keys as they are is judged by RBAC alone.
    api.patch("mk-eds", &update, &Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }))).await?;

    // An anchor that is created again says what the namespace's HierarchyConfiguration says, or an admin creates it.
    lose_the_anchor(&workshop, "mk-root", "mk-eds").await?;
    for spec in [labels("privileged"), json!({})] {
        unauthorized(api.create(&create, &anchor("mk-eds", &spec)?).await);
    }
    api.create(&create, &anchor("mk-eds", &labels("restricted"))?).await?;
    steps.anchor_shows("mk-root", "mk-eds", "Ok").await?;
    labelled(steps, "mk-eds", ENFORCE, Some("restricted")).await?;
    // Where nothing is configured, an editor creates a lost anchor again as in HNC.
    api.create(&create, &anchor("mk-bare", &json!({}))?).await?;
    steps.anchor_shows("mk-root", "mk-bare", "Ok").await?;
    lose_the_anchor(&workshop, "mk-root", "mk-bare").await?;
    unauthorized(api.create(&create, &anchor("mk-bare", &labels("privileged"))?).await);
    api.create(&create, &anchor("mk-bare", &json!({}))?).await?;
    steps.anchor_shows("mk-root", "mk-bare", "Ok").await?;
    running.end().await
}

/// The anchor's labels are in force whatever the `HierarchyConfiguration` says, also in the moment before that is corrected.
#[tokio::test]
async fn an_admin_of_a_subnamespace_cannot_replace_the_labels_of_its_anchor() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&MANAGED).await?;
    steps.plant(&[("mw-root", "")]).await?;
    steps
        .anchors("mw-root")
        .create(&PostParams::default(), &anchor("mw-child", &labels("restricted"))?)
        .await?;
    labelled(steps, "mw-child", ENFORCE, Some("restricted")).await?;
    steps.make_admin("mw-child", "xavier").await?;
    let xavier = Steps::of(workshop.cluster.client_as("xavier", &[])).hierarchies("mw-child");
    let privileged = Patch::Merge(json!({ "spec": labels("privileged") }));
    eventually("xavier may configure", PATIENCE, async || {
        let patched = xavier.patch(HIERARCHY, &PatchParams::default(), &privileged).await;
        patched.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    for round in 0..10 {
        xavier.patch(HIERARCHY, &PatchParams::default(), &privileged).await?;
        loop {
            let (marks, _) = steps.marks("mw-child").await?;
            ensure!(marks.get(ENFORCE).is_some_and(|it| it == "restricted"), "round {round}: {marks:?}");
            let stored = serde_json::to_value(xavier.get(HIERARCHY).await?.spec)?;
            if stored["labels"] == labels("restricted")["labels"] {
                break;
            }
        }
    }
    running.end().await
}

fn unauthorized(answer: Result<SubnamespaceAnchor, kube::Error>) {
    let status = refusal(answer);
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"), "{}", status.message);
    assert!(status.message.contains("hierarchyconfigurations"), "{}", status.message);
    println!("{}", status.message);
}

/// A user with all rights deletes an anchor of a namespace with a child, which stays.
async fn lose_the_anchor(workshop: &Workshop, parent: &str, child: &str) -> Result<()> {
    let (steps, below) = (&workshop.steps, format!("{child}-below"));
    steps.create_namespace(&below).await?;
    eventually("it has a child", PATIENCE, async || {
        steps.set_parent(&below, child).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    steps.hierarchy_is(child, "lists its child", |it| it["status"]["children"] == json!([below])).await?;
    let slipped = Steps::of(super::scene::past_the_rules(workshop.cluster));
    slipped.anchors(parent).delete(child, &DeleteParams::default()).await?;
    steps.reasons(child, &["SubnamespaceAnchorMissing"]).await.map(drop)
}

/// An administrator's labels are there before their keys are managed.
#[tokio::test]
async fn labels_that_the_hierarchy_has_not_set_stay() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&[]).await?;
    steps.plant(&[("ml-root", ""), ("ml-child", "ml-root")]).await?;
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(workshop.cluster.admin());
    let set = async |name: &str, manager: &str, marks: Value| {
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        namespaces.patch_metadata(name, &params, &Patch::Merge(json!({ "metadata": marks }))).await
    };
    for name in ["ml-root", "ml-child"] {
        let own = json!({ ENFORCE: "restricted" });
        set(name, "kubectl-label", json!({ "labels": own, "annotations": own })).await?;
        // As HNC leaves them.
        set(name, "manager", json!({ "labels": { "structure.test/left": "by-hnc" } })).await?;
    }
    running.end().await?;

    let running = workshop.run(&MANAGED).await?;
    for name in ["ml-root", "ml-child"] {
        labelled(steps, name, "structure.test/left", None).await?;
        labelled(steps, name, ENFORCE, Some("restricted")).await?;
    }
    steps.configure("ml-root", labels("baseline")).await?;
    labelled(steps, "ml-child", ENFORCE, Some("baseline")).await?;
    // What the hierarchy has set goes with the configuration.
    let two = json!({ "labels": [{ "key": "structure.test/team", "value": "red" }] });
    steps.configure("ml-root", two).await?;
    for name in ["ml-root", "ml-child"] {
        labelled(steps, name, "structure.test/team", Some("red")).await?;
        labelled(steps, name, ENFORCE, None).await?;
        let (_, annotations) = steps.marks(name).await?;
        ensure!(
            annotations.get(ENFORCE).is_some_and(|it| it == "restricted"),
            "an administrator's annotation is gone: {annotations:?}"
        );
    }
    // A value that a user sets now, where nothing is configured, stays.
    set("ml-child", "kubectl-label", json!({ "labels": { ENFORCE: "restricted" } })).await?;
    steps.configure("ml-root", json!({ "labels": null })).await?;
    labelled(steps, "ml-child", "structure.test/team", None).await?;
    labelled(steps, "ml-child", ENFORCE, Some("restricted")).await?;
    running.end().await
}

/// `pat` may write namespaces, also through their subresources, and has no other right.
#[tokio::test]
async fn no_user_changes_what_the_hierarchy_sets() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&MANAGED).await?;
    steps.plant(&[("mh-root", ""), ("mh-child", "mh-root")]).await?;
    let set = json!([{ "key": ENFORCE, "value": "restricted" }]);
    steps.configure("mh-root", json!({ "labels": set, "annotations": set })).await?;
    labelled(steps, "mh-child", ENFORCE, Some("restricted")).await?;
    let kubectl = async |words: &str| workshop.cluster.kubectl().args(words.split(' ')).ok().await;
    let resources = "namespaces,namespaces/status";
    kubectl(&format!("create clusterrole mh-patch --verb=get,update,patch --resource={resources}")).await?;
    kubectl("create clusterrolebinding mh-patch --clusterrole=mh-patch --user=pat").await?;
    let pat = Api::<Namespace>::all(workshop.cluster.client_as("pat", &[]));
    let (merge, params) = (|change: Value| Patch::Merge(change), PatchParams::default());
    eventually("pat may write", PATIENCE, async || {
        let other = merge(json!({ "metadata": { "labels": { "structure.test/other": "x" } } }));
        pat.patch("mh-child", &params, &other).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    for name in ["mh-child", "mh-root"] {
        for value in [json!(null), json!("privileged")] {
            for marks in ["labels", "annotations"] {
                let change = json!({ "metadata": { marks: { ENFORCE: value } } });
                refused(pat.patch(name, &params, &merge(change.clone())).await)?;
                refused(pat.patch_status(name, &params, &merge(change)).await)?;
            }
        }
        let force = PatchParams::apply("pat").force();
        let applied = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "labels": { ENFORCE: "privileged" } } });
        refused(pat.patch(name, &force, &Patch::Apply(applied)).await)?;
        let mut whole = pat.get(name).await?;
        whole.metadata.labels.as_mut().and_then(|labels| labels.remove(ENFORCE));
        refused(pat.replace(name, &PostParams::default(), &whole).await)?;
    }
    // The value of the hierarchy may be written, and so may keys that it does not set.
    let same = json!({ "metadata": { "labels": { ENFORCE: "restricted", "structure.test/other": null } } });
    pat.patch("mh-child", &params, &merge(same)).await?;
    running.end().await
}

fn refused(answer: Result<Namespace, kube::Error>) -> Result<()> {
    let status = refusal(answer);
    ensure!(status.code == 403 && status.message.contains("from the hierarchy"), "{}", status.message);
    Ok(())
}

/// A user who may change a namespace fills it, as far as the policies allow, before a label from above restricts it more.
#[tokio::test]
async fn a_full_namespace_still_gets_its_labels() -> Result<()> {
    let workshop = workshop().await?;
    let steps = &workshop.steps;
    let running = workshop.run(&MANAGED).await?;
    steps.plant(&[("mf-root", ""), ("mf-large", "mf-root"), ("mf-notes", "mf-root")]).await?;
    steps.configure("mf-root", labels("restricted")).await?;
    labelled(steps, "mf-large", ENFORCE, Some("restricted")).await?;

    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(workshop.cluster.admin());
    let mut managers = 0;
    // The same labels, by more and more field managers: first many labels each, at last a single one.
    for count in [900, 100, 10, 1] {
        let labels: BTreeMap<String, &str> =
            (0..count).map(|number| (format!("{number:0>200}.example.com/{number:0>63}"), "x")).collect();
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "mf-large", "labels": labels } });
        loop {
            managers += 1;
            let params = PatchParams::apply(&format!("filler-{managers}")).force();
            match namespaces.patch_metadata("mf-large", &params, &Patch::Apply(&object)).await {
                Ok(_) => ensure!(managers < 100, "it does not become too large"),
                Err(error) => {
                    ensure!(error.to_string().contains("too large"), "{error}");
                    break;
                }
            }
        }
    }
    // The longest label that fits.
    let mut fits = false;
    for length in (1..=63).rev() {
        let change = json!({ "metadata": { "labels": { "filler": "x".repeat(length) } } });
        let changed =
            namespaces.patch_metadata("mf-large", &PatchParams::default(), &Patch::Merge(change)).await;
        fits = changed.is_ok();
        if fits {
            break;
        }
    }
    ensure!(fits, "no label fits");
    let longer = "restricted".repeat(6);
    steps.configure("mf-root", labels(&longer)).await?;
    labelled(steps, "mf-large", ENFORCE, Some(&longer)).await?;

    let full = json!({ "metadata": { "annotations": { "full": "x".repeat(256 * 1024 - 4) } } });
    namespaces.patch_metadata("mf-notes", &PatchParams::default(), &Patch::Merge(full)).await?;
    let both = json!({
        "labels": [{ "key": ENFORCE, "value": "baseline" }],
        "annotations": [{ "key": ENFORCE, "value": "baseline" }],
    });
    steps.configure("mf-root", both).await?;
    labelled(steps, "mf-notes", ENFORCE, Some("baseline")).await?;
    let (_, annotations) = steps.marks("mf-notes").await?;
    ensure!(annotations.contains_key("full"), "the annotations of others are gone: {:?}", annotations.keys());
    running.end().await
}
