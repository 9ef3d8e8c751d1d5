//! A cluster with Accurate's API on, and what the tests do and await there.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::labels::PARENT;
use hns_api::accurate::{SubNamespace, SubNamespaceSpec};
use hns_cluster::settings::accurate::{Config, Settings};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Steps, eventually};
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::sync::OnceCell;

use crate::plugin::fixture::{Fixture, Output, start_with};

const CONFIG: &str = "
labelKeys: [team]
subNamespaceLabelKeys: [tier]
watches:
- {version: v1, kind: Secret}
- {group: rbac.authorization.k8s.io, version: v1, kind: RoleBinding}
namingPolicies:
- {root: -strict$, match: ^strict-}
";

/// The cluster, and a test's own connection to it.
pub(super) struct World {
    pub(super) fixture: &'static Fixture,
    pub(super) steps: Steps,
}

/// All tests share it, and use different names.
pub(super) async fn world() -> World {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static FIXTURE: OnceCell<Fixture> = OnceCell::const_new();
    let start = async || -> Result<Fixture> {
        let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
        let accurate = Settings { enabled: true, config: Config::parse(CONFIG)?, ..Settings::default() };
        let options = Options {
            manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/accurate.yaml"),
            accurate: Some(accurate),
            ..Options::default()
        };
        start_with(cluster, options).await
    };
    let fixture = FIXTURE.get_or_try_init(start).await.expect("hns starts with Accurate's API");
    World { fixture, steps: fixture.steps() }
}

impl World {
    pub(super) async fn run(&self, words: &str) -> Output {
        self.fixture.accurate(words).await
    }

    /// Runs a command until it has this output: until the programs have seen what it depends on.
    pub(super) async fn until(&self, words: &str, wanted: &str) {
        eventually(&format!("{words}: {wanted}"), PATIENCE, async || {
            let output = self.run(words).await;
            if (output.code, &*output.stdout) == (Some(0), wanted) {
                Ok(())
            } else {
                Err(format!("{output:?}"))
            }
        })
        .await
        .unwrap();
    }

    /// Plans a command until the plan says this.
    pub(super) async fn until_planned(&self, words: &str, wanted: &str) {
        eventually(&format!("plan {words}: {wanted}"), PATIENCE, async || {
            let output = self.run(&format!("plan {words}")).await;
            if output.stdout.contains(wanted) { Ok(()) } else { Err(format!("{output:?}")) }
        })
        .await
        .unwrap();
    }

    /// Runs a command until it is refused for this reason: until the API server has seen the user's rights.
    pub(super) async fn until_refused(&self, words: &str, reason: &str) -> Output {
        eventually(&format!("{words}: {reason}"), PATIENCE, async || {
            let output = self.run(words).await;
            if output.stderr.contains(reason) { Ok(output) } else { Err(format!("{output:?}")) }
        })
        .await
        .unwrap()
    }

    pub(super) async fn create_namespace(&self, name: &str) {
        self.steps.create_namespace(name).await.unwrap();
    }

    /// Creates a root, and waits until the webhook knows it.
    pub(super) async fn create_root(&self, name: &str) {
        self.create_namespace(name).await;
        self.run(&format!("ns set-type {name} root")).await.says("success\n");
        let probe = SubNamespace::new("strict-probe", SubNamespaceSpec::default());
        let params = PostParams { dry_run: true, ..PostParams::default() };
        eventually(&format!("{name} is a root for the webhook"), PATIENCE, async || {
            self.forms(name).create(&params, &probe).await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    }

    /// Creates a sub-namespace with a label from its `SubNamespace`, and waits for it.
    pub(super) async fn create_sub(&self, name: &str, parent: &str) {
        let words = format!("sub create {name} {parent} --labels tier=1");
        self.until(&words, &format!("SubNamespace {name} is created in {parent}\n")).await;
        self.belongs(name, parent).await;
        self.labelled(name, "tier", Some("1")).await;
    }

    /// The same without a label.
    pub(super) async fn create_plain_sub(&self, name: &str, parent: &str) {
        let words = format!("sub create {name} {parent}");
        self.until(&words, &format!("SubNamespace {name} is created in {parent}\n")).await;
        self.belongs(name, parent).await;
    }

    pub(super) async fn belongs(&self, name: &str, parent: &str) {
        self.labelled(name, PARENT, Some(parent)).await;
    }

    /// Waits until a namespace has a label with this value, or with `None` has not.
    pub(super) async fn labelled(&self, name: &str, key: &str, value: Option<&str>) {
        eventually(&format!("{name} has the label {key}={value:?}"), PATIENCE, async || {
            let found = self.steps.namespaces().get(name).await.map_err(|error| error.to_string())?;
            let found = found.metadata.labels.unwrap_or_default();
            if found.get(key).map(String::as_str) == value { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await
        .unwrap();
    }

    pub(super) async fn gone(&self, name: &str) {
        eventually(&format!("{name} goes"), PATIENCE, async || {
            match self.steps.namespaces().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap();
    }

    pub(super) fn forms(&self, parent: &str) -> Api<SubNamespace> {
        hns_cluster::api::Api::namespaced(self.steps.client.clone(), parent).into()
    }

    pub(super) async fn form(&self, parent: &str, name: &str) -> Option<SubNamespace> {
        self.all_forms(name).await.into_iter().find(|it| it.metadata.namespace.as_deref() == Some(parent))
    }

    async fn all_forms(&self, name: &str) -> Vec<SubNamespace> {
        let all: Api<SubNamespace> = Api::all(self.steps.client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        all.list(&named).await.unwrap().items
    }

    /// Waits until exactly these namespaces have a `SubNamespace` of this name, each with whether it is in conflict.
    pub(super) async fn has_forms(&self, name: &str, wanted: &[(&str, bool)]) {
        let wanted: BTreeMap<String, bool> =
            wanted.iter().map(|(parent, conflicts)| ((*parent).to_owned(), *conflicts)).collect();
        eventually(&format!("the SubNamespaces {name} are {wanted:?}"), PATIENCE, async || {
            let all = self.all_forms(name).await;
            let is_current = |it: &SubNamespace| {
                it.status.as_ref().and_then(|it| it.observed_generation) == it.metadata.generation
            };
            let found: BTreeMap<String, bool> = all
                .iter()
                .map(|it| (it.metadata.namespace.clone().unwrap_or_default(), conflicts(it)))
                .collect();
            if found == wanted && all.iter().all(is_current) { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await
        .unwrap();
    }

    pub(super) async fn uid(&self, name: &str) -> String {
        let namespace = self.steps.namespaces().get(name).await.unwrap();
        assert!(namespace.metadata.deletion_timestamp.is_none(), "{name} is being deleted");
        namespace.metadata.uid.unwrap()
    }

    /// That no command has left its mark on the namespace.
    pub(super) async fn is_unmarked(&self, name: &str) {
        let namespace = self.steps.namespaces().get(name).await.unwrap();
        let annotations = namespace.metadata.annotations.unwrap_or_default();
        assert!(!annotations.contains_key(MOVED_FROM), "{annotations:?}");
    }
}

fn conflicts(form: &SubNamespace) -> bool {
    let conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| (&*it.type_, &*it.reason) == ("Stalled", "Conflict"))
}
