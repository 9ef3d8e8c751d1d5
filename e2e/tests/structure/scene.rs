//! The shared installation of this suite, and common steps. Tests use different names.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use hns_api::{SubnamespaceAnchor, finalizers, labels};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What all tests of this suite start both binaries with.
pub(crate) const FLAGS: [&str; 8] = [
    "--excluded-namespace=kube-system",
    "--excluded-namespace=kube-public",
    "--excluded-namespace=kube-node-lease",
    // Names that end in an x are not included.
    "--included-namespace-regex=.*[^x]",
    "--managed-namespace-label=structure.test/.*",
    "--managed-namespace-annotation=structure.test/.*",
    "--external-manager=cloud=cloud-tool",
    "--restore-identity=restore-operators",
];

/// How long namespaces may take to go: hundreds may be waiting.
pub(crate) const DELETION: Duration = Duration::from_secs(300);

/// Held alone by a test that measures time: nothing else of this suite runs meanwhile.
static QUIET: RwLock<()> = RwLock::const_new(());

pub(crate) async fn among_others() -> RwLockReadGuard<'static, ()> {
    QUIET.read().await
}

pub(crate) fn options(flags: &[&str]) -> Options {
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    Options { webhook_args: flags.clone(), controller_args: flags, ..Options::default() }
}

struct Fixture {
    product: Product<'static>,
    _webhook: Replica,
    _controller: Replica,
}

async fn fixture() -> Result<&'static Fixture> {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD
        .get_or_try_init(async || {
            let product = Product::install(Cluster::shared().await, options(&FLAGS)).await?;
            let (webhook, controller) =
                tokio::try_join!(product.start_webhook(), product.start_controller())?;
            registered(product.cluster()).await?;
            Ok(Fixture { product, _webhook: webhook, _controller: controller })
        })
        .await
}

/// Waits until the controller has made registrations and policies what its flags say, and the API server follows them.
async fn registered(cluster: &Cluster) -> Result<()> {
    let steps = Steps::of(cluster.admin());
    let probe = |name: &str, labels: Value| {
        serde_json::from_value::<Namespace>(json!({ "metadata": { "name": name, "labels": labels } }))
    };
    // By default the flags include every name.
    let outside = probe("registered-x", json!({ labels::INCLUDED_NAMESPACE: "true" }))?;
    let plain = probe("registered", json!({}))?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("registrations and policies are as the flags say", Duration::from_secs(60), async || {
        let copies = cluster.kubectl().args(["get", "validatingadmissionpolicy", "hns-copies", "-o", "json"]);
        let copies = copies.ok().await.map_err(|error| error.to_string())?;
        if !copies.contains("restore-operators") {
            return Err("the policy of copies does not know who restores".into());
        }
        let refused = steps.namespaces().create(&dry, &outside).await;
        if !refused.as_ref().is_err_and(|error| error.to_string().contains("hns-namespace-keys")) {
            return Err(format!("a wrong label is answered by {refused:?}"));
        }
        let created = steps.namespaces().create(&dry, &plain).await.map_err(|error| error.to_string())?;
        let labelled = created.metadata.labels.unwrap_or_default();
        if labelled.contains_key(labels::INCLUDED_NAMESPACE) { Ok(()) } else { Err(format!("{labelled:?}")) }
    })
    .await
}

/// A test's place in the installation. `H` says whether other tests run beside it.
pub(crate) struct Scene<H = RwLockReadGuard<'static, ()>> {
    fixture: &'static Fixture,
    _held: H,
    /// Steps of the administrator (`system:masters`).
    pub(crate) steps: Steps,
    /// Steps past every rule: as the controller's account, with all rights.
    pub(crate) slipped: Steps,
}

/// The installation, beside other tests.
pub(crate) async fn scene() -> Result<Scene> {
    let held = among_others().await;
    Scene::new(fixture().await?, held)
}

/// The installation, for a test of many rounds: it has to hold [`among_others`] in each, and lets go of it in between.
pub(crate) async fn scene_in_rounds() -> Result<Scene<()>> {
    Scene::new(fixture().await?, ())
}

/// The installation, with nothing else going on in this suite.
pub(crate) async fn scene_alone() -> Result<Scene<RwLockWriteGuard<'static, ()>>> {
    let fixture = fixture().await?;
    let held = QUIET.write().await;
    Scene::new(fixture, held)
}

impl<H> Scene<H> {
    #[expect(clippy::unnecessary_wraps, reason = "so that its callers read as one expression")]
    fn new(fixture: &'static Fixture, held: H) -> Result<Self> {
        let cluster = fixture.product.cluster();
        Ok(Self {
            fixture,
            _held: held,
            steps: Steps::of(cluster.admin()),
            slipped: Steps::of(past_the_rules(cluster)),
        })
    }

    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.fixture.product.cluster()
    }
}

/// A client past the rules, which exempt the controller's own account: as if a webhook were not installed yet.
pub(crate) fn past_the_rules(cluster: &Cluster) -> Client {
    cluster.client_as(CONTROLLER_USER, &["system:masters"])
}

/// What this suite does with anchors and hierarchies.
pub(crate) trait Structure {
    /// Creates an anchor and waits until its subnamespace is there and labelled as `path` says: itself first.
    async fn subnamespace(&self, path: &[&str]) -> Result<()>;

    /// Waits until an anchor shows a state; gives it.
    async fn anchor_shows(&self, parent: &str, child: &str, state: &str) -> Result<SubnamespaceAnchor>;

    /// Merges `patch` into a `HierarchyConfiguration`, creating it where there is none.
    async fn configure(&self, namespace: &str, spec: Value) -> Result<()>;

    /// Waits until a `HierarchyConfiguration` is as `holds` wants it.
    async fn hierarchy_is(
        &self,
        namespace: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value>;

    /// The object as it is stored.
    async fn stored_hierarchy(&self, namespace: &str) -> Result<Option<Value>>;

    /// The uid of a namespace; fails when there is none.
    async fn uid(&self, namespace: &str) -> Result<String>;

    /// Labels and annotations of a namespace.
    async fn marks(&self, namespace: &str) -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)>;

    /// Merges `patch` into a namespace.
    async fn change_namespace(&self, name: &str, patch: Value) -> Result<()>;

    /// Deletes these namespaces at once and waits until all are gone.
    async fn delete_namespaces(&self, names: &[String]) -> Result<()>;
}

impl Structure for Steps {
    async fn subnamespace(&self, path: &[&str]) -> Result<()> {
        let (child, parent) = (path[0], path[1]);
        self.create_anchor(parent, child).await?;
        self.anchor_shows(parent, child, "Ok").await?;
        self.labelled(path).await
    }

    async fn anchor_shows(&self, parent: &str, child: &str, state: &str) -> Result<SubnamespaceAnchor> {
        eventually(&format!("the anchor {child} in {parent} shows {state}"), PATIENCE, async || {
            let anchor = self.anchors(parent).get(child).await.map_err(|error| error.to_string())?;
            let held =
                anchor.metadata.finalizers.iter().flatten().any(|it| it == finalizers::SUBNAMESPACE_ANCHOR);
            // A forbidden anchor is the one kind that is never held.
            if anchor.state() == Some(state) && held == (state != "Forbidden") {
                Ok(anchor)
            } else {
                Err(format!("{anchor:?}"))
            }
        })
        .await
    }

    async fn configure(&self, namespace: &str, spec: Value) -> Result<()> {
        let api = self.hierarchies(namespace);
        let patch = Patch::Merge(json!({ "spec": spec }));
        eventually(&format!("the hierarchy of {namespace} takes {spec}"), PATIENCE, async || {
            match api.patch(HIERARCHY, &PatchParams::default(), &patch).await {
                Ok(_) => Ok(Ok(())),
                Err(kube::Error::Api(status)) if status.reason == "NotFound" => {
                    let object = json!({ "metadata": { "name": HIERARCHY }, "spec": spec });
                    let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
                    // The controller may create one at the same time.
                    api.create(&PostParams::default(), &object)
                        .await
                        .map(|_| Ok(()))
                        .map_err(|it| it.to_string())
                }
                Err(error) => Ok(Err(error)),
            }
        })
        .await?
        .with_context(|| format!("configuring {namespace}"))
    }

    async fn hierarchy_is(
        &self,
        namespace: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("the hierarchy of {namespace} {what}"), PATIENCE, async || {
            let stored = self.stored_hierarchy(namespace).await.map_err(|error| error.to_string())?;
            let stored = stored.unwrap_or(Value::Null);
            if holds(&stored) { Ok(stored) } else { Err(stored.to_string()) }
        })
        .await
    }

    async fn stored_hierarchy(&self, namespace: &str) -> Result<Option<Value>> {
        let path = format!(
            "/apis/{}/namespaces/{namespace}/hierarchyconfigurations/{HIERARCHY}",
            hns_api::API_VERSION
        );
        let request = http::Request::get(path).body(Vec::new())?;
        match self.client.request::<Value>(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn uid(&self, namespace: &str) -> Result<String> {
        self.namespaces().get(namespace).await?.metadata.uid.context("a namespace without uid")
    }

    async fn marks(&self, namespace: &str) -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)> {
        let metadata = self.namespaces().get(namespace).await?.metadata;
        Ok((metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default()))
    }

    async fn change_namespace(&self, name: &str, patch: Value) -> Result<()> {
        self.namespaces().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn delete_namespaces(&self, names: &[String]) -> Result<()> {
        for name in names {
            match self.namespaces().delete(name, &DeleteParams::default()).await {
                Ok(_) => {}
                // A subnamespace may have gone with its anchor.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        for name in names {
            self.gone(name).await?;
        }
        Ok(())
    }
}
