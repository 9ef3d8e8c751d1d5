//! The installation that the tests of this suite share, the kinds and people in it, and taking part in it. Tests keep apart
//! by names of their own; what is configured for all is in `world.yaml`.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::request::{Answer, Users, kind, object, object_path};

/// Where the configuration of the cluster is.
pub(crate) const CONFIG: &str = "/apis/hnc.x-k8s.io/v1alpha2/hncconfigurations/config";

/// The group of all kinds that are defined for this suite.
pub(crate) const GROUP: &str = "propagation.test";

/// What all tests of this suite start both binaries with.
pub(crate) const FLAGS: [&str; 8] = [
    "--excluded-namespace=kube-system",
    "--excluded-namespace=kube-public",
    "--excluded-namespace=kube-node-lease",
    "--excluded-namespace=hnc-system",
    // Names that end in an x are not included.
    "--included-namespace-regex=.*[^x]",
    "--nopropagation-label=propagation.test/stays=here",
    "--unpropagated-label=private.propagation.test/*",
    "--unpropagated-annotation=private.propagation.test/*",
];

/// Flags about labels that are read in two places.
pub(crate) const MORE_FLAGS: [&str; 3] = [
    // What copies do not take over can still keep their source where it is.
    "--nopropagation-label=private.propagation.test/stays=here",
    "--nopropagation-label=app.kubernetes.io/managed-by=somebody",
    "--restore-identity=restorer",
];

/// Held alone by a test that measures time: nothing else of this suite runs meanwhile.
static QUIET: RwLock<()> = RwLock::const_new(());

/// The configuration is changed by one test at a time.
static CONFIGURING: Mutex<()> = Mutex::const_new(());

/// `world.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawing {
    /// What is defined, by plural.
    definitions: Vec<Definition>,
    /// The entries of the configuration besides those of `definitions`.
    configured: Vec<Value>,
    /// Cluster roles, and who has them.
    rights: Vec<Value>,
}

/// A kind of this suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    plural: String,
    /// Its entry in the configuration; absent, it has none.
    #[serde(default)]
    entry: Option<Value>,
    #[serde(default)]
    status: bool,
}

/// Both binaries at work on a cluster.
pub(crate) struct Fixture {
    pub(crate) product: Product<'static>,
    pub(crate) webhook: Replica,
    pub(crate) controller: Replica,
}

pub(crate) fn options(flags: &[&str]) -> Options {
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    Options { webhook_args: flags.clone(), controller_args: flags, ..Options::default() }
}

/// The flags of the suite.
pub(crate) fn flags() -> Vec<&'static str> {
    [FLAGS.as_slice(), &MORE_FLAGS].concat()
}

async fn shared() -> Result<&'static Fixture> {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD.get_or_try_init(async || Fixture::found(Cluster::shared().await, options(&flags())).await).await
}

impl Fixture {
    /// Defines the kinds, gives the rights, installs the product and configures all kinds; all of it is in force when this
    /// returns.
    pub(crate) async fn found(cluster: &'static Cluster, options: Options) -> Result<Self> {
        let drawing: Drawing = serde_saphyr::from_str(include_str!("world.yaml"))?;
        define(cluster, &drawing.definitions).await?;
        let rights = json!({ "apiVersion": "v1", "kind": "List", "items": drawing.rights });
        cluster.kubectl().args(["apply", "-f", "-"]).stdin(rights.to_string()).ok().await?;
        let product = Product::install(cluster, options).await?;
        let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
        let fixture = Self { product, webhook, controller };
        let scene = Scene::of(&fixture, ());
        let entries = drawing.definitions.into_iter().filter_map(|it| {
            let mut entry = it.entry?;
            entry["group"] = json!(GROUP);
            entry["resource"] = json!(it.plural);
            Some(entry)
        });
        scene.configure(&drawing.configured.into_iter().chain(entries).collect::<Vec<_>>()).await?;
        scene.judged().await?;
        drop(scene);
        Ok(fixture)
    }

    /// What has ended or panicked.
    pub(crate) fn unharmed(&self) -> Result<()> {
        for replica in [&self.webhook, &self.controller] {
            ensure!(replica.process().exit().is_none(), "{} ended:\n{}", replica.pod_name(), replica.log());
            ensure!(!replica.log().contains("panic"), "{} panicked:\n{}", replica.pod_name(), replica.log());
        }
        Ok(())
    }
}

/// Applies definitions of kinds and waits until they are served.
async fn define(cluster: &Cluster, definitions: &[Definition]) -> Result<()> {
    let all: Vec<Value> = definitions
        .iter()
        .map(|it| definition(&it.plural, it.status, &json!({ "x-kubernetes-preserve-unknown-fields": true })))
        .collect();
    apply_definitions(cluster, &all).await
}

pub(crate) async fn apply_definitions(cluster: &Cluster, definitions: &[Value]) -> Result<()> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": definitions }).to_string();
    cluster.kubectl().args(["apply", "--server-side", "-f", "-"]).stdin(list.clone()).ok().await?;
    cluster.kubectl().stdin(list).established(["-f", "-"]).await.map(drop)
}

/// The definition of a kind of this suite. `schema` is that of its `spec`; its `data` may hold anything.
pub(crate) fn definition(plural: &str, status: bool, schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!("object");
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let subresources = if status { json!({ "status": {} }) } else { json!({}) };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind(plural).1 },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": schema, "data": open, "status": open },
                } },
            }],
        },
    })
}

/// A test's access to an installation. `H` says whether other tests run beside it.
pub(crate) struct Scene<'w, H = RwLockReadGuard<'static, ()>> {
    pub(crate) fixture: &'w Fixture,
    _held: H,
    /// Steps of the administrator (`system:masters`).
    pub(crate) steps: Steps,
    /// Requests of any user.
    pub(crate) users: Users,
}

/// The shared installation, beside other tests.
pub(crate) async fn scene() -> Result<Scene<'static>> {
    let held = QUIET.read().await;
    Ok(Scene::of(shared().await?, held))
}

/// The shared installation, with nothing else going on in this suite.
pub(crate) async fn scene_alone() -> Result<Scene<'static, RwLockWriteGuard<'static, ()>>> {
    let fixture = shared().await?;
    let held = QUIET.write().await;
    Ok(Scene::of(fixture, held))
}

/// Leave to run beside the tests of the shared installation, for those that have one of their own.
pub(crate) async fn beside_others() -> RwLockReadGuard<'static, ()> {
    QUIET.read().await
}

impl<'w, H> Scene<'w, H> {
    pub(crate) fn of(fixture: &'w Fixture, held: H) -> Self {
        let cluster = fixture.product.cluster();
        Self { fixture, _held: held, steps: Steps::of(cluster.admin()), users: Users::of(cluster) }
    }

    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.fixture.product.cluster()
    }

    /// Creates an object; `fields` may be anything it has beside its kind and name.
    pub(crate) async fn create(
        &self,
        who: &str,
        (plural, namespace, name): (&str, &str, &str),
        fields: Value,
    ) -> Result<Answer> {
        let object = object(plural, name, fields);
        let collection = object_path(plural, namespace, "");
        self.users.send(who, Method::POST, &collection, &object).await
    }

    /// The object as it is stored.
    pub(crate) async fn get(&self, plural: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let path = object_path(plural, namespace, name);
        let answer = self.users.send("admin", Method::GET, &path, &Value::Null).await?;
        match answer.code {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => anyhow::bail!("{path}: {answer}"),
        }
    }

    /// The entries of the configuration as they would be with these in place of those for the same resources.
    pub(crate) async fn configuration_with(&self, entries: &[Value]) -> Result<Value> {
        let mut config = match self.users.send("admin", Method::GET, CONFIG, &Value::Null).await? {
            answer if answer.code == 200 => answer.body,
            answer => anyhow::bail!("{CONFIG}: {answer}"),
        };
        let resources = config["spec"]["resources"].as_array().cloned().unwrap_or_default();
        let of = |entry: &Value| {
            (entry["group"].as_str().unwrap_or_default().to_owned(), entry["resource"].clone())
        };
        let kept = resources.into_iter().filter(|known| entries.iter().all(|entry| of(entry) != of(known)));
        // An entry of which nothing but the name is said is taken away.
        let new = entries.iter().filter(|entry| entry.get("absent").is_none());
        config["spec"]["resources"] = kept.chain(new.cloned()).collect();
        Ok(config)
    }

    /// Puts these entries into the configuration, in place of those for the same resources, and waits until it is said that
    /// they are in force. An entry with the field `absent` takes the one there is away.
    pub(crate) async fn configure(&self, entries: &[Value]) -> Result<()> {
        self.put_configuration("admin", entries).await?;
        self.in_force(entries).await
    }

    /// The same without waiting.
    pub(crate) async fn put_configuration(&self, who: &str, entries: &[Value]) -> Result<()> {
        let _turn = CONFIGURING.lock().await;
        eventually("the configuration is taken", PATIENCE, async || {
            let config = self.configuration_with(entries).await.map_err(|error| format!("{error:#}"))?;
            let answer = self.users.send(who, Method::PUT, CONFIG, &config).await;
            let answer = answer.map_err(|error| format!("{error:#}"))?;
            if answer.code == 200 { Ok(()) } else { Err(answer.to_string()) }
        })
        .await
    }

    pub(crate) async fn in_force(&self, entries: &[Value]) -> Result<()> {
        eventually(&format!("the status shows {entries:?}"), PATIENCE, async || {
            let config = self.users.send("admin", Method::GET, CONFIG, &Value::Null).await;
            let config = config.map_err(|error| format!("{error:#}"))?.body;
            let known = config["status"]["resources"].as_array().cloned().unwrap_or_default();
            for entry in entries {
                let found = known.iter().find(|it| {
                    it["resource"] == entry["resource"]
                        && it["group"].as_str().unwrap_or_default()
                            == entry["group"].as_str().unwrap_or_default()
                });
                let shown = found.map(|it| it["mode"].as_str().unwrap_or_default().to_owned());
                let mode = entry["mode"].as_str().unwrap_or("Propagate").to_owned();
                let wanted = entry.get("absent").is_none().then_some(mode);
                if shown != wanted {
                    return Err(format!("{entry}: {shown:?}; {}", config["status"]["conditions"]));
                }
            }
            Ok(())
        })
        .await
    }

    /// Waits until the API server asks about every configured kind, in a namespace with a child.
    async fn judged(&self) -> Result<()> {
        self.steps.plant(&[("judged", ""), ("below-judged", "judged")]).await?;
        let probe = json!({ "metadata": { "annotations": { "wrong.hnc.x-k8s.io/key": "" } } });
        let copy = json!({ "metadata": { "labels": { "hnc.x-k8s.io/inherited-from": "a" } } });
        let kinds = ["configmaps", "secrets", "roles", "limitranges", "allowings", "gadgets", "reportings"];
        for (plural, code, fields) in
            kinds.iter().flat_map(|plural| [(plural, 400, &probe), (plural, 403, &copy)])
        {
            eventually(&format!("{plural} are judged"), Duration::from_secs(60), async || {
                let mut object = object(plural, "probe", fields.clone());
                if *plural == "limitranges" {
                    object["spec"] = json!({ "limits": [] });
                }
                let path = format!("{}?dryRun=All", object_path(plural, "judged", ""));
                let answer = self.users.send("admin", Method::POST, &path, &object).await;
                let answer = answer.map_err(|error| format!("{error:#}"))?;
                if answer.code == code { Ok(()) } else { Err(answer.to_string()) }
            })
            .await?;
        }
        Ok(())
    }

    /// Sets a parent. What is refused for now, because a kind has just been configured, is tried again.
    pub(crate) async fn hang(&self, who: &str, child: &str, parent: &str) -> Result<()> {
        let what = format!("{child} is hung below {parent}");
        let hung = eventually(&what, PATIENCE, async || {
            match self.users.steps(who).set_parent(child, parent).await {
                Err(kube::Error::Api(status)) if status.code == 503 => Err(status.message),
                other => Ok(other),
            }
        });
        hung.await?.map(drop).with_context(|| format!("hanging {child} below {parent}"))
    }

    /// Creates namespaces with labels, each below its parent, and waits until the tree labels are there.
    pub(crate) async fn plant(&self, tree: &[Planted]) -> Result<()> {
        let mut paths: HashMap<&str, Vec<&str>> = HashMap::new();
        for it in tree {
            let labels = json!({ "metadata": { "name": it.name, "labels": it.labels } });
            let namespace = serde_json::from_value(labels)?;
            self.steps.namespaces().create(&kube::api::PostParams::default(), &namespace).await?;
        }
        for it in tree {
            let mut path = vec![it.name.as_str()];
            if let Some(below) = &it.below {
                self.hang("admin", &it.name, below).await?;
                path.extend(paths.get(below.as_str()).context("parents come first")?);
            }
            paths.insert(&it.name, path);
        }
        for path in paths.values().filter(|path| !path[0].ends_with('x')) {
            self.steps.labelled(path).await?;
        }
        Ok(())
    }
}

/// A namespace to be planted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Planted {
    #[serde(rename = "namespace")]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) below: Option<String>,
    #[serde(default)]
    pub(crate) labels: HashMap<String, String>,
}

/// A namespace without labels, below another or a root.
pub(crate) fn planted(name: &str, below: Option<&str>) -> Planted {
    Planted { name: name.to_owned(), below: below.map(str::to_owned), labels: HashMap::new() }
}
