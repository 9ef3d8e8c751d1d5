//! The installation that the tests of this file share, and taking turns with it: who the registrations name, the living, the
//! dead or the hanging webhook, is one thing for the whole cluster.

use std::time::Duration;

use hns_cluster::settings::FailurePolicy;
use hns_controller::registrations::{Admission, RegistrationSettings, admission};
use hns_e2e::product::{CONTROLLER_USER, definition_of_sub_namespaces};
use hns_e2e::programs::Kubernetes;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, eventually};
use http::{Method, Request};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::recorder::Recorder;
use super::table::{self, Users};

/// The field of a metric that counts conditions that could not be evaluated.
const ERRORS: &str = "apiserver_admission_match_condition_evaluation_errors_total";

/// An API server that has just started learns of definitions only when it looks again, every half minute; until then a
/// policy with parameters of a defined kind is not in force.
const POLICY_PATIENCE: Duration = Duration::from_secs(60);

/// What the tables were written for: something of every setting.
pub(crate) fn settings() -> RegistrationSettings {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let manager = |value: &str, name: &str| (value.to_owned(), name.to_owned());
    RegistrationSettings {
        excluded: owned(&[
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "hnc-system",
            "listed",
            "listed-too",
        ]),
        included_pattern: "^(?:[^x].*)$".to_owned(),
        managed_labels: owned(&["^(?:pool/.*)$", "^(?:tier)$"]),
        managed_annotations: owned(&["^(?:note)$"]),
        restore_identities: owned(&["restorer", "restorers"]),
        external_managers: vec![
            manager("fleet", "fleet-agent"),
            manager("fleet", "fleet-agents"),
            manager("convoy", "convoy-agent"),
            manager("convoy", "fleet-agents"),
        ],
        initial_admin: true,
        quotas: Some(FailurePolicy::Fail),
        accurate: true,
        followed: [("", "resourcequotas"), ("networking.k8s.io", "networkpolicies")]
            .map(|(group, plural)| (group.to_owned(), plural.to_owned()))
            .into(),
        awaited: owned(&["awaited", "wanted-most"]),
        parents: owned(&["deserted"]),
        propagated: [
            ("rbac.authorization.k8s.io", "roles"),
            ("rbac.authorization.k8s.io", "rolebindings"),
            ("", "configmaps"),
            ("", "secrets"),
            ("", "services"),
            ("", "serviceaccounts"),
            ("coordination.k8s.io", "leases"),
            ("networking.k8s.io", "networkpolicies"),
        ]
        .map(|(group, plural)| (group.to_owned(), plural.to_owned()))
        .into(),
        nopropagation_labels: [("cattle.io/creator", "norman"), ("private", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..RegistrationSettings::default()
    }
}

struct World {
    product: Product<'static>,
    recorder: Recorder,
    /// Whose turn it is.
    turn: Mutex<()>,
}

/// The installation, to oneself for as long as this is held.
pub(crate) struct Turn {
    world: &'static World,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for one's turn.
pub(crate) async fn turn() -> Turn {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    let world = WORLD
        .get_or_init(async || {
            let product = Product::install(Cluster::shared().await, Options::default()).await.unwrap();
            delete_mutating_policy(product.cluster()).await;
            define_sub_namespaces(product.cluster()).await;
            let recorder = Recorder::start(product.certificates());
            populate(product.cluster()).await;
            World { product, recorder, turn: Mutex::new(()) }
        })
        .await;
    Turn { world, _turn: world.turn.lock().await }
}

async fn define_sub_namespaces(cluster: &Cluster) {
    let file = definition_of_sub_namespaces().display().to_string();
    cluster.kubectl().args(["apply", "--server-side", "-f", &file]).ok().await.unwrap();
    cluster.kubectl().established(["-f", &file]).await.unwrap();
}

/// Most tables are about the webhook that labels namespaces where no policy does.
async fn delete_mutating_policy(cluster: &Cluster) {
    if Kubernetes::wanted().unwrap().has_mutating_policies() {
        let objects = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
        let delete = ["delete", objects, hns_api::names::policies::DEFAULTS];
        cluster.kubectl().args(delete).ok().await.unwrap();
    }
}

/// Does what `world.yaml` says, as the controller, whom nothing refuses.
async fn populate(cluster: &Cluster) {
    let steps: Vec<Value> = serde_saphyr::from_str(include_str!("world.yaml")).unwrap();
    let users = Users::of(cluster);
    for step in &steps {
        let (method, path, body) = if let Some(path) = step["delete"].as_str() {
            (Method::DELETE, path.to_owned(), Value::Null)
        } else if let Some(path) = step["patch"].as_str() {
            (Method::PATCH, path.to_owned(), step["body"].clone())
        } else if let Some(path) = step["finalize"].as_str() {
            let mut namespace = users.send(CONTROLLER_USER, Method::GET, path, &Value::Null).await.unwrap();
            namespace["spec"]["finalizers"] = json!([]);
            (Method::PUT, format!("{path}/finalize"), namespace)
        } else {
            (Method::POST, table::collection_of(&step["object"]), step["object"].clone())
        };
        users
            .send(CONTROLLER_USER, method, &path, &body)
            .await
            .unwrap_or_else(|error| panic!("{step}: {error}"));
    }
}

impl Turn {
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.world.product.cluster()
    }

    pub(crate) fn recorder(&self) -> &'static Recorder {
        &self.world.recorder
    }

    /// Registers the living webhook.
    pub(crate) async fn alive(&self) {
        self.route(self.world.recorder.alive).await;
        let asked = async || {
            self.recorder().take();
            let outcome = self.probe().await;
            let calls = self.recorder().take();
            if outcome.is_ok() && calls.len() == 2 { Ok(()) } else { Err(format!("{outcome:?}, {calls:?}")) }
        };
        eventually("the living webhook is asked", PATIENCE, asked).await.unwrap();
        self.policies_in_force().await;
    }

    /// Registers the living webhook for an installation without policies.
    pub(crate) async fn alive_without_policies(&self) {
        let settings = RegistrationSettings { policies: false, ..settings() };
        self.apply(&self.registrations(self.world.recorder.alive, &settings)).await;
        for policy in hns_api::names::policies::ALL {
            let delete = ["delete", "--ignore-not-found", "validatingadmissionpolicybinding", policy];
            self.cluster().kubectl().args(delete).ok().await.unwrap();
        }
        let users = Users::of(self.cluster());
        let none_in_force = async || {
            self.recorder().take();
            for row in table::read(include_str!("in-force.yaml")).iter().flat_map(|table| &table.rows) {
                users.try_out(row).await.map_err(|error| format!("{}: {error}", row.it))?;
            }
            let sent = self.recorder().take().iter().any(|call| call.request["operation"] == "DELETE");
            if sent { Ok(()) } else { Err("no deletion of a copy is sent".to_owned()) }
        };
        eventually("the webhook is sent what policies judged", POLICY_PATIENCE, none_in_force).await.unwrap();
    }

    /// Registers the living webhook, and has the API server label namespaces.
    pub(crate) async fn alive_with_mutating_policy(&self) {
        self.alive().await;
        let settings = RegistrationSettings { mutating_policy: true, ..settings() };
        self.apply(&self.registrations(self.world.recorder.alive, &settings)).await;
        self.labels_namespaces(true).await;
    }

    pub(crate) async fn without_mutating_policy(&self) {
        delete_mutating_policy(self.cluster()).await;
        self.labels_namespaces(false).await;
    }

    async fn labels_namespaces(&self, expected: bool) {
        let users = Users::of(self.cluster());
        eventually(&format!("the API server labels namespaces: {expected}"), POLICY_PATIENCE, async || {
            let (path, body) = ("/api/v1/namespaces?dryRun=All", json!({ "metadata": { "name": "fresh" } }));
            let created = users.send("prober", Method::POST, path, &body).await;
            let created = created.map_err(|error| error.to_string())?;
            let labels = &created["metadata"]["labels"];
            let is_labelled = !labels["fresh.tree.hnc.x-k8s.io/depth"].is_null();
            if is_labelled == expected { Ok(()) } else { Err(labels.to_string()) }
        })
        .await
        .unwrap();
    }

    /// Registers the living webhook where namespaces wait for these names.
    pub(crate) async fn alive_and_awaited(&self, awaited: Vec<String>) {
        let settings = RegistrationSettings { awaited, ..settings() };
        self.apply(&self.registrations(self.world.recorder.alive, &settings)).await;
    }

    /// Registers one that nothing listens for.
    pub(crate) async fn dead(&self) {
        self.route(self.world.recorder.dead).await;
        self.unanswered("connection refused").await;
        self.policies_in_force().await;
    }

    /// Registers one that never answers.
    pub(crate) async fn hanging(&self) {
        self.route(self.world.recorder.hanging).await;
        self.unanswered("deadline exceeded").await;
        self.policies_in_force().await;
    }

    async fn unanswered(&self, says: &str) {
        let refused = async || match self.probe().await {
            Err(kube::Error::Api(status)) if status.message.contains(says) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually("the webhook does not answer", Duration::from_secs(60), refused).await.unwrap();
    }

    /// Creates an anchor as a dry run: two entries must be asked.
    async fn probe(&self) -> Result<Value, kube::Error> {
        let path = "/apis/hnc.x-k8s.io/v1alpha2/namespaces/parent/subnamespaceanchors?dryRun=All";
        let anchor = json!({ "metadata": { "name": "probe" } });
        Users::of(self.cluster()).send("prober", Method::POST, path, &anchor).await
    }

    /// Waits for the policies as they are for the tables: each refuses something that only these settings refuse, or that no
    /// other one does.
    async fn policies_in_force(&self) {
        let users = Users::of(self.cluster());
        let probes = table::read(include_str!("in-force.yaml"));
        for row in probes.iter().flat_map(|table| &table.rows) {
            let refused = async || match row.objection(&users.try_out(row).await) {
                None => Ok(()),
                Some(objection) => Err(objection),
            };
            eventually(&row.it, POLICY_PATIENCE, refused).await.unwrap();
        }
    }

    async fn route(&self, port: u16) {
        self.apply(&self.registrations(port, &settings())).await;
    }

    /// Everything as it is while the webhook is alive.
    pub(crate) fn registered(&self) -> Vec<Value> {
        let all = self.registrations(self.world.recorder.alive, &settings()).into_iter();
        all.filter(|object| object["kind"] != "ValidatingAdmissionPolicyBinding").collect()
    }

    fn registrations(&self, port: u16, settings: &RegistrationSettings) -> Vec<Value> {
        let Admission { mut validating, mut parents, mut mutating, policies, bindings, mutating_policy } =
            admission(settings);
        let client_config = |name: &str| WebhookClientConfig {
            url: Some(format!("https://127.0.0.1:{port}/{}", name.trim_end_matches(".hnc.x-k8s.io"))),
            ca_bundle: Some(ByteString(self.world.product.ca_pem().as_bytes().to_vec())),
            service: None,
        };
        let of_both = validating.webhooks.iter_mut().chain(&mut parents.webhooks);
        for webhook in of_both.flatten() {
            webhook.client_config = client_config(&webhook.name);
        }
        for webhook in mutating.webhooks.iter_mut().flatten() {
            webhook.client_config = client_config(&webhook.name);
        }
        let policies = policies.iter().map(|it| serde_json::to_value(it).unwrap());
        let bindings = bindings.iter().map(|it| serde_json::to_value(it).unwrap());
        let webhooks = [
            serde_json::to_value(validating).unwrap(),
            serde_json::to_value(parents).unwrap(),
            serde_json::to_value(mutating).unwrap(),
        ];
        policies.chain(bindings).chain(mutating_policy.into_iter().flatten()).chain(webhooks).collect()
    }

    async fn apply(&self, documents: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents });
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.cluster().kubectl().args(apply).stdin(list.to_string()).ok().await.unwrap();
    }

    /// Registers, for one kind, a condition that looks a key up in a map that is absent; and has it evaluated.
    pub(crate) async fn with_a_condition_that_fails(&self) {
        let bad = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "careless" },
            "webhooks": [{
                "name": "careless.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": format!("https://127.0.0.1:{}/careless", self.world.recorder.dead) },
                "failurePolicy": "Ignore",
                "matchConditions": [{ "name": "careless", "expression": "object.metadata.labels['team'] == 'red'" }],
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
                "sideEffects": "None",
            }],
        });
        self.apply(&[bad]).await;
        let users = Users::of(self.cluster());
        let counted = async || {
            let path = "/api/v1/namespaces/child/configmaps?dryRun=All";
            let created =
                users.send("carol", Method::POST, path, &json!({ "metadata": { "name": "fresh" } })).await;
            created.map_err(|error| error.to_string())?;
            let errors = evaluation_errors(self.cluster()).await;
            if errors.is_empty() { Err("nothing is counted".to_owned()) } else { Ok(()) }
        };
        eventually("the error is counted", PATIENCE, counted).await.unwrap();
    }

    /// Takes that registration away and starts counting anew, with the API server.
    pub(crate) async fn forget_errors(&self) {
        let delete = ["delete", "validatingwebhookconfiguration", "careless"];
        self.cluster().kubectl().args(delete).ok().await.unwrap();
        self.cluster().restart_api_server().await.unwrap();
    }
}

/// What the API server counts of conditions that could not be evaluated, as far as it is not 0.
pub(crate) async fn evaluation_errors(cluster: &Cluster) -> Vec<String> {
    let request = Request::get("/metrics").body(Vec::new()).unwrap();
    let text = cluster.admin().request_text(request).await.unwrap();
    let counted = text.lines().filter(|line| line.starts_with(ERRORS) && !line.ends_with(" 0"));
    counted.map(str::to_owned).collect()
}
