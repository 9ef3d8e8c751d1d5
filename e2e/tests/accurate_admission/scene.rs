//! The installation that all tests share, one after the other.

use std::path::Path;

use hns_cluster::settings::accurate::{Config, Settings};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Replica, eventually};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::table::send;

/// The group whose members have every right.
const MASTERS: &str = "system:masters";

/// The installation.
pub(crate) struct Scene {
    pub(crate) product: Product<'static>,
    pub(crate) webhook: Replica,
}

/// The installation with its strict settings, alone.
pub(crate) async fn scene() -> MutexGuard<'static, Scene> {
    static SCENE: OnceCell<Mutex<Scene>> = OnceCell::const_new();
    SCENE.get_or_init(async || Mutex::new(install().await.unwrap())).await.lock().await
}

/// The settings of most tables.
pub(crate) fn strict() -> Settings {
    let config = "
subNamespaceLabelKeys: [team]
watches:
- {version: v1, kind: Secret}
- {group: rbac.authorization.k8s.io, version: v1, kind: RoleBinding}
namingPolicies:
- {root: '^app-(?P<team>[a-z]+)$', match: '^app-${team}-.+'}
- {root: '^two-([a-z]+)-([a-z]+)$', match: '^$2-$1-.+'}
- {root: 'a([0-9])', match: '${1}x'}
- {root: '^odd-(?P<unused>[a-z]+)$', match: '^odd-.+'}
";
    Settings { enabled: true, config: Config::parse(config).unwrap(), ..Settings::default() }
}

async fn install() -> anyhow::Result<Scene> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/accurate.yaml");
    let options = Options { manifests, accurate: Some(strict()), ..Options::default() };
    let product = Product::install(Cluster::shared().await, options).await?;
    let world: Vec<Value> = serde_saphyr::from_multiple(include_str!("world.yaml"))?;
    let world = json!({ "apiVersion": "v1", "kind": "List", "items": world });
    // The controller's user: no webhook judges it.
    let identity = [format!("--as={CONTROLLER_USER}"), format!("--as-group={MASTERS}")];
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    product.cluster().kubectl().args(identity).args(apply).stdin(world.to_string()).ok().await?;
    let webhook = product.start_webhook().await?;
    let scene = Scene { product, webhook };
    for going in [
        "/api/v1/namespaces/going",
        "/apis/accurate.cybozu.com/v2/namespaces/app-red-sub/subnamespaces/ending",
    ] {
        send(&scene.user(CONTROLLER_USER), "DELETE", going, Value::Null).await?;
    }
    scene.is_judged().await?;
    scene.is_completed().await?;
    Ok(scene)
}

impl Scene {
    /// A client of this user, who has the rights of `world.yaml`. It does not retry.
    pub(crate) fn user(&self, name: &str) -> Client {
        let mut config = self.product.cluster().config();
        config.default_retry = false;
        config.auth_info.impersonate = Some(name.into());
        let is_controller = name == CONTROLLER_USER;
        config.auth_info.impersonate_groups = is_controller.then(|| vec![MASTERS.to_owned()]);
        Client::try_from(config).unwrap()
    }

    /// Waits until the rights are in force, and the webhook knows the namespaces and both hierarchies.
    pub(crate) async fn is_judged(&self) -> anyhow::Result<()> {
        let probes = [
            ("DELETE", "/api/v1/namespaces/zz-last", "boss", Value::Null, "child namespaces exist"),
            (
                "PATCH",
                "/api/v1/namespaces/hnc-child",
                "boss",
                json!({ "metadata": { "labels": { "accurate.cybozu.com/type": "root" } } }),
                "one hierarchy only",
            ),
            (
                "POST",
                "/apis/accurate.cybozu.com/v2/namespaces/normal/subnamespaces",
                "alice",
                json!({ "metadata": { "name": "probe" } }),
                "neither a root nor a sub namespace",
            ),
        ];
        for (method, path, user, body, says) in probes {
            self.refuses((method, path, user), &body, says).await?;
        }
        Ok(())
    }

    /// Waits until a new `SubNamespace` gets its finalizer: the API server loads the mutating entry apart from the others, and goes on
    /// without it.
    async fn is_completed(&self) -> anyhow::Result<()> {
        let client = self.user("alice");
        let path = "/apis/accurate.cybozu.com/v2/namespaces/root/subnamespaces?dryRun=All";
        eventually("a SubNamespace gets its finalizer", PATIENCE, async || {
            let body = json!({ "metadata": { "name": "probe" } });
            let created = send(&client, "POST", path, body).await.map_err(|error| error.to_string())?;
            if created["metadata"]["finalizers"].is_array() { Ok(()) } else { Err(created.to_string()) }
        })
        .await
    }

    async fn refuses(
        &self,
        (method, path, user): (&str, &str, &str),
        body: &Value,
        says: &str,
    ) -> anyhow::Result<()> {
        let client = self.user(user);
        eventually(&format!("{user} may not {method} {path}: {says}"), PATIENCE, async || {
            match send(&client, method, &format!("{path}?dryRun=All"), body.clone()).await {
                Err(kube::Error::Api(status)) if status.message.contains(says) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}
