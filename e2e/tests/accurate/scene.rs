//! The shared installation of this suite, and common steps.

use std::path::Path;

use anyhow::{Context, Result};
use hns_cluster::settings::accurate::{Config, Settings};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Launch, Options, Product, Proxy, Replica, Steps, eventually};
use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) const FROM: &str = "accurate.cybozu.com/from";
pub(crate) const PROPAGATE: &str = "accurate.cybozu.com/propagate";
pub(crate) const PARENT: &str = "accurate.cybozu.com/parent";
pub(crate) const TEMPLATE: &str = "accurate.cybozu.com/template";
pub(crate) const TYPE: &str = "accurate.cybozu.com/type";
pub(crate) const CREATED_BY: &str = "app.kubernetes.io/created-by";
pub(crate) const FINALIZER: &str = "accurate.cybozu.com/finalizer";

/// The settings of all tests.
pub(crate) const CONFIG: &str = "
labelKeys: [team, zone, '*.test/*', '*/type']
annotationKeys: ['not?']
subNamespaceLabelKeys: [tier, team]
subNamespaceAnnotationKeys: [owner]
watches:
- {group: rbac.authorization.k8s.io, version: v1, kind: Role}
- {group: rbac.authorization.k8s.io, version: v1, kind: RoleBinding}
- {version: v1, kind: Secret}
- {version: v1, kind: ResourceQuota}
- {version: v1, kind: ServiceAccount}
propagateLabelKeyExcludes: ['*kubernetes.io/*']
propagateAnnotationKeyExcludes: ['*kubernetes.io/*']
";

/// A label that flows downstream, and is managed in HNC's hierarchy.
pub(crate) const MANAGED: &str = "level.test/x";

/// Who makes the changes: somebody who runs the namespaces of a company, and is no administrator of the cluster.
const BOSS: &str = "boss";

/// Rights for a kind that the chart's default does not name; those of `boss` beside `admin` in all namespaces; and what a tenant may
/// do beside `admin`.
const MORE_RIGHTS: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "boss"}, "rules": [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"]},
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["create", "patch", "update", "delete"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "boss"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "boss"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "boss"}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "boss-is-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "boss"}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "tenant"}, "rules": [
        {"apiGroups": [""], "resources": ["namespaces", "resourcequotas", "resourcequotas/status"], "verbs": ["create", "patch", "update", "delete"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "accounts"}, "rules": [
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "accounts"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "accounts"},
        "subjects": [{"kind": "ServiceAccount", "name": "hns-controller", "namespace": "hnc-system"}]}]}
"#;

/// Held alone by a test that changes what others depend on.
static ALONE: RwLock<()> = RwLock::const_new(());

pub(crate) struct Installation {
    pub(crate) product: Product<'static>,
    pub(crate) webhook: Mutex<Replica>,
    pub(crate) controller: Mutex<Replica>,
    /// Between both programs and the API server.
    pub(crate) proxy: Proxy,
}

pub(crate) fn settings(config: &str) -> Settings {
    Settings { enabled: true, config: Config::parse(config).unwrap(), ..Settings::default() }
}

async fn install() -> Result<Installation> {
    let cluster = Cluster::shared().await;
    let options = Options {
        manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/accurate.yaml"),
        accurate: Some(settings(CONFIG)),
        webhook_args: vec![format!("--managed-namespace-label={MANAGED}")],
        controller_args: vec![format!("--managed-namespace-label={MANAGED}")],
        ..Options::default()
    };
    let product = Product::install(cluster, options).await?;
    cluster.kubectl().args(["apply", "-f", "-"]).stdin(MORE_RIGHTS).ok().await?;
    let proxy = Proxy::start(cluster)?;
    let start =
        |component| product.start(component, Launch { server: Some(proxy.url()), ..Launch::default() });
    let (webhook, controller) = tokio::try_join!(start(Component::Webhook), start(Component::Controller))?;
    let boss = cluster.client_as(BOSS, &[]);
    for collection in ["/api/v1/namespaces", "/api/v1/secrets", "/apis/accurate.cybozu.com/v2/subnamespaces"]
    {
        eventually(&format!("{BOSS} may list {collection}"), PATIENCE, async || {
            let listed = send(&boss, "GET", collection, Value::Null).await;
            listed.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    }
    Ok(Installation { product, webhook: Mutex::new(webhook), controller: Mutex::new(controller), proxy })
}

/// A test's place in the installation. `H` says whether other tests run beside it.
pub(crate) struct Scene<H = RwLockReadGuard<'static, ()>> {
    _held: H,
    pub(crate) installation: &'static Installation,
    /// Of whoever makes the changes.
    pub(crate) client: Client,
}

async fn installation() -> &'static Installation {
    static INSTALLATION: OnceCell<Installation> = OnceCell::const_new();
    INSTALLATION.get_or_try_init(install).await.expect("the product starts")
}

/// The installation, beside other tests; changes are made by [`BOSS`].
pub(crate) async fn scene() -> Scene {
    let installation = installation().await;
    let boss = installation.product.cluster().client_as(BOSS, &[]);
    Scene { _held: ALONE.read().await, installation, client: boss }
}

/// The installation, with nothing else going on; changes are made by the administrator.
pub(crate) async fn scene_alone() -> Scene<RwLockWriteGuard<'static, ()>> {
    let installation = installation().await;
    let admin = installation.product.cluster().admin();
    Scene { _held: ALONE.write().await, installation, client: admin }
}

/// Where objects of a kind are: the root of their API, and their plural.
pub(crate) type Kind = (&'static str, &'static str);

pub(crate) const SECRETS: Kind = ("/api/v1", "secrets");
pub(crate) const QUOTAS: Kind = ("/api/v1", "resourcequotas");
pub(crate) const ACCOUNTS: Kind = ("/api/v1", "serviceaccounts");
pub(crate) const ROLES: Kind = ("/apis/rbac.authorization.k8s.io/v1", "roles");
pub(crate) const BINDINGS: Kind = ("/apis/rbac.authorization.k8s.io/v1", "rolebindings");
pub(crate) const FORMS: Kind = ("/apis/accurate.cybozu.com/v2", "subnamespaces");

pub(crate) fn path((root, plural): Kind, namespace: &str, name: &str) -> String {
    format!("{root}/namespaces/{namespace}/{plural}/{name}").trim_end_matches('/').to_owned()
}

pub(crate) fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

/// Sends a request. A PATCH is a merge patch; APPLY is a server-side apply.
pub(crate) async fn send(client: &Client, method: &str, path: &str, body: Value) -> kube::Result<Value> {
    let (method, content) = match method {
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "PATCH" => ("PATCH", "application/merge-patch+json"),
        other => (other, "application/json"),
    };
    let request = Request::builder()
        .method(Method::try_from(method).unwrap())
        .uri(path)
        .header(header::CONTENT_TYPE, content)
        .body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() })
        .unwrap();
    client.request(request).await
}

impl<H> Scene<H> {
    /// Sends a request.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> kube::Result<Value> {
        send(&self.client, method, path, body).await
    }

    /// A tenant: admin of one namespace, who may also change the namespace and the quotas in it.
    pub(crate) async fn tenant(&self, user: &str, home: &str) -> Client {
        let steps = Steps::of(self.installation.product.cluster().admin());
        for role in ["admin", "tenant"] {
            steps.create_binding(home, &format!("{user}-{role}"), ("ClusterRole", role), user).await.unwrap();
        }
        let client = self.installation.product.cluster().client_as(user, &[]);
        eventually(&format!("{user} is admin of {home}"), PATIENCE, async || {
            let tried = send(&client, "PATCH", &format!("{}?dryRun=All", namespace(home)), json!({})).await;
            let listed = send(&client, "GET", &path(SECRETS, home, ""), Value::Null).await;
            tried.and(listed).map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
        client
    }

    /// Sends a request until the webhook has seen what it depends on.
    pub(crate) async fn send_until_allowed(&self, method: &str, path: &str, body: Value) -> Value {
        eventually(&format!("{method} {path} is allowed"), PATIENCE, async || {
            self.send(method, path, body.clone()).await.map_err(|error| error.to_string())
        })
        .await
        .unwrap()
    }

    /// The object; `None` if there is none.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, String> {
        match self.send("GET", path, Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits until the object is so, and gives it.
    pub(crate) async fn until(&self, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{path} {what}"), PATIENCE, async || {
            let found = self.get(path).await?.unwrap_or_default();
            if is_so(&found) { Ok(found) } else { Err(limited(&found.to_string())) }
        })
        .await
        .unwrap()
    }

    /// Waits until there is no such object.
    pub(crate) async fn gone(&self, path: &str) {
        self.until(path, "goes", Value::is_null).await;
    }

    pub(crate) async fn create_namespace(&self, name: &str, labels: Value) {
        let body = json!({ "metadata": { "name": name, "labels": labels } });
        self.send_until_allowed("POST", "/api/v1/namespaces", body).await;
    }

    pub(crate) async fn create_root(&self, name: &str) {
        self.create_namespace(name, json!({ TYPE: "root" })).await;
    }

    /// Creates a `SubNamespace` and waits for its namespace.
    pub(crate) async fn create_sub(&self, parent: &str, child: &str, spec: Value) {
        let body = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace",
            "metadata": { "name": child }, "spec": spec });
        self.send_until_allowed("POST", &path(FORMS, parent, ""), body).await;
        self.until(&namespace(child), "is there", |it| it["metadata"]["labels"][PARENT] == parent).await;
    }

    /// Creates an object with this mode; none if it is empty.
    pub(crate) async fn create(&self, kind: Kind, namespace: &str, name: &str, mode: &str, mut body: Value) {
        body["metadata"]["name"] = name.into();
        if !mode.is_empty() {
            body["metadata"]["annotations"][PROPAGATE] = mode.into();
        }
        self.send("POST", &path(kind, namespace, ""), body).await.unwrap();
    }

    pub(crate) async fn patch(&self, path: &str, changes: Value) -> Value {
        self.send("PATCH", path, changes).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, Value::Null).await.unwrap();
    }

    /// Waits for a copy of this source, and gives it.
    pub(crate) async fn copied(&self, kind: Kind, from: &str, to: &str, name: &str) -> Value {
        self.until(&path(kind, to, name), "is a copy", |it| it["metadata"]["annotations"][FROM] == from).await
    }

    /// Waits until everything that was changed before is processed: a new source arrives below.
    pub(crate) async fn settled(&self, root: &str, below: &str, marker: &str) {
        self.create(SECRETS, root, marker, "create", json!({})).await;
        self.copied(SECRETS, root, below, marker).await;
    }

    /// Writes the settings document.
    pub(crate) async fn configure(&self, accurate: &Settings) -> Result<()> {
        self.installation.product.configure_accurate(accurate).await.context("writing the settings")
    }
}

/// Some objects are as large as they can be.
fn limited(text: &str) -> String {
    const MOST: usize = 5_000;
    text.chars().take(MOST).collect()
}

/// The labels or the annotations of an object, or any field, by its path.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a Value {
    &object["metadata"]["labels"][key]
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a Value {
    &object["metadata"]["annotations"][key]
}

pub(crate) fn version(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("uid"), text("resourceVersion"))
}
