//! From Accurate to here, and back again, with Helm and as the documentation says.
//!
//! What Accurate's chart installs is in `accurate/chart`, as section 12 of its contract has it; its programs are not there. What they
//! leave is in `accurate_trees`.

use std::collections::BTreeMap;

use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::{AuditEvent, Cluster, Component, Deployed, Programs, Shell, eventually};
use serde_json::{Value, json};

use super::accurate_trees::{NAMESPACES, WRONG, begin, grow};
use super::helm::checkout;
use super::takeover::block;
use super::works::{PATIENCE, collected, turn};

const GUIDE: &str = include_str!("../../../docs/upgrade-from-accurate.md");
const FORMS: &str = "subnamespaces.accurate.cybozu.com";
const KINDS: &str = "roles,rolebindings,secrets,configmaps,resourcequotas";
const REPOSITORY: &str = "accurate --repo https://cybozu-go.github.io/accurate/";
const CHART: &str = "e2e/tests/install/accurate/chart";

/// The administrator, with everything that the guide uses.
struct Guide {
    shell: Shell,
    port: u16,
}

impl Guide {
    async fn new(cluster: &Cluster) -> Self {
        let shell = Shell::new(cluster).unwrap();
        let helm = tokio::task::spawn_blocking(Programs::helm).await.unwrap().unwrap();
        shell.add("bin/helm", &helm).unwrap();
        for name in ["charts", "e2e"] {
            shell.add(name, &checkout().join(name)).unwrap();
        }
        shell
            .add("accurate-values.yaml", &checkout().join("e2e/tests/install/accurate/values.yaml"))
            .unwrap();
        Self { shell, port: Deployed::free_port().unwrap() }
    }

    async fn run(&self, commands: &str) -> String {
        self.shell.run(commands).await.unwrap_or_else(|error| panic!("{commands}: {error}"))
    }

    /// Runs a block of the guide. The images and the port are those of this machine, and Accurate's chart is at hand.
    async fn follow(&self, name: &str) -> String {
        let port = format!("--set webhook.servicePort={} --values", self.port);
        let text = block(GUIDE, name).replace("REGISTRY/", "").replace(REPOSITORY, CHART);
        let is_ours = text.contains("helm install hns");
        self.run(&if is_ours { text.replacen("--values", &port, 1) } else { text }).await
    }
}

#[tokio::test]
async fn accurate_is_taken_over_without_one_write_to_a_correct_copy_and_can_come_back() {
    let (_turn, cluster) = turn().await;
    let guide = Guide::new(cluster).await;
    let mut deployed = Deployed::new(cluster, "hnc-system", guide.port).unwrap();
    accurate_lives(cluster, &guide).await;
    quotas_are_counted(cluster).await;
    let before = State::read(cluster).await;

    for block in ["kept", "values", "rules", "uninstall"] {
        guide.follow(block).await;
    }
    let mark = cluster.audit().mark().unwrap();
    guide.follow("install").await;
    deployed.follow().await.unwrap();
    guide.follow("stored").await;
    wrong_copies_are_repaired(cluster).await;
    new_source_arrives(cluster).await;
    let after = State::read(cluster).await;
    before.is_kept(&after);
    every_write_was_needed(&cluster.audit().mutating_by(CONTROLLER_USER, mark).unwrap());
    definition_is_of(cluster, "hnc-system", "hnc-webhook-service", None).await;

    let mark = cluster.audit().mark().unwrap();
    deployed.stop(Component::Controller).await.unwrap();
    deployed.follow().await.unwrap();
    deployed.wait_ready().await.unwrap();
    new_source_arrives(cluster).await;
    let written = in_the_trees(&cluster.audit().mutating_by(CONTROLLER_USER, mark).unwrap());
    assert!(written.iter().all(|it| it.name == "new"), "{written:#?}");

    back_to_accurate(cluster, &guide, &mut deployed, &after).await;
    clear(cluster, &guide, &mut deployed).await;
}

/// Its installation by an earlier version, which stored `SubNamespaces` as v1, then by a later one; by Helm 3, which applied on the
/// client. Its webhooks fail closed and do not answer, so they come last. Then what cert-manager writes.
async fn accurate_lives(cluster: &Cluster, guide: &Guide) {
    let chart = |verb: &str, more: &str| {
        format!("helm {verb} accurate {CHART} -n accurate --server-side=false -f accurate-values.yaml {more}")
    };
    guide.run(&chart("install", "--create-namespace --set storage=v1,webhooks=false")).await;
    cluster.kubectl().established(["crd", FORMS]).await.unwrap();
    begin(cluster).await;
    guide.run(&chart("upgrade", "--set webhooks=false")).await;
    eventually("v2 is served", PATIENCE, async || {
        let get = cluster.kubectl().args(["get", "--raw", "/apis/accurate.cybozu.com/v2"]).ok().await;
        get.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
    .unwrap();
    grow(cluster).await;
    guide.run(&chart("upgrade", "")).await;
    let bundle = json!(k8s_openapi::ByteString(cluster.ca_pem().as_bytes().to_vec()));
    let patch =
        json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } } });
    let patch = ["patch", "crd", FORMS, "--field-manager=cert-manager-cainjector", "-p", &patch.to_string()]
        .map(str::to_owned);
    cluster.kubectl().args(patch).args(["--type=merge"]).ok().await.unwrap();
    let stored = definition(cluster).await["status"]["storedVersions"].clone();
    assert_eq!(stored, json!(["v1", "v2"]));
}

/// The quota controller writes the status of a new quota, some time later.
async fn quotas_are_counted(cluster: &Cluster) {
    for namespace in NAMESPACES {
        let quotas = ["resourcequotas", "--selector=kept=1", "-n", namespace];
        eventually(&format!("quotas in {namespace} are counted"), PATIENCE, async || {
            let found = json_of(cluster, &quotas).await;
            let waits = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|it| it["status"]["hard"] != it["spec"]["hard"]);
            waits.map_or(Ok(()), |quota| Err(quota.to_string()))
        })
        .await
        .unwrap();
    }
}

async fn definition(cluster: &Cluster) -> Value {
    json_of(cluster, &["crd", FORMS]).await
}

async fn json_of(cluster: &Cluster, what: &[&str]) -> Value {
    let text = cluster.kubectl().args(["get", "-o", "json"]).args(what).ok().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The Service that converts, and the certificate whose authority cert-manager writes.
async fn definition_is_of(cluster: &Cluster, namespace: &str, name: &str, certificate: Option<&str>) {
    let definition = definition(cluster).await;
    let service = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!((&service["namespace"], &service["name"]), (&json!(namespace), &json!(name)), "{service}");
    assert_eq!(definition["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], json!(certificate));
    assert_eq!(definition["status"]["storedVersions"], json!(["v2"]));
}

/// What is in Accurate's trees.
struct State {
    namespaces: BTreeMap<String, Value>,
    /// The versions of the sources and the copies.
    objects: BTreeMap<String, String>,
}

impl State {
    async fn read(cluster: &Cluster) -> Self {
        let (mut namespaces, mut objects) = (BTreeMap::new(), BTreeMap::new());
        for name in NAMESPACES {
            namespaces.insert(name.to_owned(), json_of(cluster, &["namespace", name]).await);
            for object in json_of(cluster, &[KINDS, "-n", name]).await["items"].as_array().unwrap() {
                let metadata = &object["metadata"];
                if metadata["labels"]["kept"] == "1" && !WRONG.iter().any(|it| metadata["name"] == *it) {
                    let key = format!("{name}/{}/{}", object["kind"], metadata["name"]);
                    objects.insert(key, format!("{} {}", metadata["uid"], metadata["resourceVersion"]));
                }
            }
        }
        Self { namespaces, objects }
    }

    /// Nothing has been written but the labels of HNC's API.
    fn is_kept(&self, after: &Self) {
        assert_eq!(self.objects.len(), 32, "{:#?}", self.objects);
        assert_eq!(self.objects, after.objects, "a copy was written");
        for (name, before) in &self.namespaces {
            let (mut before, mut after) = (before.clone(), after.namespaces[name].clone());
            for object in [&mut before, &mut after] {
                let metadata = object["metadata"].as_object_mut().unwrap();
                for field in ["resourceVersion", "managedFields"] {
                    metadata.remove(field);
                }
                metadata["labels"].as_object_mut().unwrap().retain(|key, _| !key.contains("hnc.x-k8s.io"));
            }
            assert_eq!(before, after);
        }
    }
}

/// The writes to objects in Accurate's trees, and to their namespaces.
fn in_the_trees(written: &[AuditEvent]) -> Vec<AuditEvent> {
    let is_in = |it: &&AuditEvent| it.namespace.starts_with("acc-") || it.name.starts_with("acc-");
    written.iter().filter(is_in).cloned().collect()
}

/// The labels of HNC's API, one write for each namespace; the repair of what was wrong; one write that stores each `SubNamespace` in the
/// present version, and the status of one that had none in it.
fn every_write_was_needed(written: &[AuditEvent]) {
    let mut counts = BTreeMap::new();
    for it in in_the_trees(written) {
        let kind = format!("{} {}", it.resource, it.subresource);
        let place = if it.namespace == it.name { it.name } else { format!("{}/{}", it.namespace, it.name) };
        *counts.entry((kind, place)).or_insert(0) += 1;
    }
    let mut labels = 0;
    for ((kind, place), count) in &counts {
        let name = place.rsplit('/').next().unwrap();
        match kind.trim() {
            "namespaces" => labels += count,
            "secrets" | "rolebindings" => assert!(WRONG.contains(&name) || name == "new", "{place}"),
            "subnamespaces" => assert_eq!(*count, 1, "{place}"),
            "subnamespaces status" => assert_eq!((name, *count), ("acc-older", 1)),
            other => panic!("{other} {place}"),
        }
    }
    // Those of the trees, and one that is in none.
    assert_eq!(labels, NAMESPACES.len() + 1, "{counts:#?}");
    println!("  {} writes in Accurate's trees, none to a correct copy", counts.values().sum::<usize>());
}

async fn wrong_copies_are_repaired(cluster: &Cluster) {
    for namespace in ["acc-web", "acc-db", "acc-old", "acc-older"] {
        eventually(&format!("copies in {namespace} are repaired"), PATIENCE, async || {
            let secret = json_of(cluster, &["secret", "wrong", "-n", namespace]).await;
            let binding = json_of(cluster, &["rolebinding", "revoked", "-n", namespace]).await;
            let is_repaired = secret["data"] == json!({ "a": "YQ==" }) && binding["subjects"].is_null();
            if is_repaired { Ok(()) } else { Err(format!("{secret} {binding}")) }
        })
        .await
        .unwrap();
    }
}

/// A new source reaches every level, so everything before it is processed. It is deleted again.
async fn new_source_arrives(cluster: &Cluster) {
    let source = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "new", "namespace": "acc-template", "annotations": { "accurate.cybozu.com/propagate": "update" } },
    });
    cluster.kubectl().args(["create", "-f", "-"]).stdin(source.to_string()).ok().await.unwrap();
    let is_there = async |namespace: &str, is_there: bool| {
        eventually(&format!("a new secret is in {namespace}: {is_there}"), PATIENCE, async || {
            let get = ["get", "secret", "new", "-n", namespace, "--ignore-not-found", "-o", "name"];
            let found = cluster.kubectl().args(get).ok().await.map_err(|error| format!("{error:#}"))?;
            if found.is_empty() == is_there { Err("not yet".to_owned()) } else { Ok(()) }
        })
        .await
        .unwrap();
    };
    for namespace in NAMESPACES {
        is_there(namespace, true).await;
    }
    cluster.kubectl().args(["delete", "secret", "new", "-n", "acc-template"]).ok().await.unwrap();
    for namespace in NAMESPACES {
        is_there(namespace, false).await;
    }
}

/// With nothing of hns running, `SubNamespaces` can be read, and have what Accurate needs; its chart takes the definition back.
async fn back_to_accurate(cluster: &Cluster, guide: &Guide, deployed: &mut Deployed<'_>, before: &State) {
    guide.follow("back").await;
    deployed.follow().await.unwrap();
    let forms = json_of(cluster, &[FORMS, "-A"]).await;
    let forms = forms["items"].as_array().unwrap();
    assert_eq!(forms.len(), 5, "{forms:#?}");
    for form in forms {
        let (metadata, status) = (&form["metadata"], &form["status"]);
        assert_eq!(metadata["finalizers"], json!(["accurate.cybozu.com/finalizer"]), "{form}");
        assert_eq!(status["observedGeneration"], metadata["generation"], "{form}");
        assert_eq!(
            status["conditions"][0]["reason"] == "Conflict",
            metadata["name"] == "acc-taken",
            "{form}"
        );
        let tier = [("acc-web", "front"), ("acc-old", "old")].into_iter().find(|it| metadata["name"] == it.0);
        assert_eq!(form["spec"]["labels"]["tier"], json!(tier.map(|it| it.1)), "{form}");
    }
    // One that was created as v1 can be changed, and applied.
    let annotate = ["annotate", FORMS, "acc-old", "-n", "acc-root", "example.com/note=1"];
    cluster.kubectl().args(annotate).ok().await.unwrap();
    let metadata =
        json!({ "name": "acc-old", "namespace": "acc-root", "annotations": { "example.com/more": "1" } });
    let object =
        json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": metadata });
    let apply = cluster.kubectl().args(["apply", "--server-side", "-f", "-"]).stdin(object.to_string());
    apply.ok().await.unwrap();
    before.is_kept(&State::read(cluster).await);
    guide.follow("again").await;
    let certificate = Some("accurate/accurate-serving-cert");
    definition_is_of(cluster, "accurate", "accurate-webhook-service", certificate).await;
}

/// Accurate is taken over once more, from a release that was applied on the server; then everything goes.
async fn clear(cluster: &Cluster, guide: &Guide, deployed: &mut Deployed<'_>) {
    for block in ["kept", "uninstall", "install", "leftovers"] {
        guide.follow(block).await;
    }
    deployed.follow().await.unwrap();
    new_source_arrives(cluster).await;
    let definitions = checkout().join("config/crds.yaml");
    let delete = ["delete", "--wait", "--timeout=120s", "-f", definitions.to_str().unwrap()];
    cluster.kubectl().args(delete).ok().await.unwrap();
    // A controller that starts without HNC's definitions removes the finalizers, too.
    deployed.stop(Component::Controller).await.unwrap();
    deployed.follow().await.unwrap();
    cluster.kubectl().args(["delete", "--wait", "--timeout=60s", "crd", FORMS]).ok().await.unwrap();
    guide.run("helm uninstall hns -n hnc-system --no-hooks").await;
    deployed.follow().await.unwrap();
    collected(cluster).await;
    let all = NAMESPACES.into_iter().chain(["acc-taken", "accurate", "hnc-system"]);
    let delete = cluster.kubectl().args(["delete", "--wait", "--timeout=120s", "namespace"]).args(all);
    delete.ok().await.unwrap();
}
