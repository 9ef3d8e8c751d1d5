//! The shared installation of this suite, and common steps. Tests use different names.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::names::DERIVED_QUOTA;
use hns_api::{HierarchicalResourceQuota, HierarchicalResourceQuotaSpec, HierarchicalResourceQuotaStatus};
use hns_cluster::api::Api;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Replica, Setup, Steps, eventually};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Every write, and the states of core quotas: they explain a failure.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [update, patch]
  resources: [{ group: \"\", resources: [resourcequotas/status] }]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
";

/// How long the control plane may take to count objects of a new kind.
pub(crate) const NEW_KIND: Duration = Duration::from_secs(120);

pub(crate) const FLAGS: [&str; 4] = [
    "--initial-admin",
    "--excluded-namespace=kube-system",
    "--excluded-namespace=kube-public",
    "--excluded-namespace=kube-node-lease",
];

/// The options of every installation of this suite.
pub(crate) fn options(failure_policy: FailurePolicy) -> Options {
    let mut options = Options::with_quotas(failure_policy);
    for args in [&mut options.webhook_args, &mut options.controller_args] {
        args.extend(FLAGS.map(str::to_owned));
    }
    options
}

struct Fixture {
    product: Product<'static>,
    _webhook: Replica,
    _controller: Replica,
}

/// The default of the controller manager. It counts from what its watches have shown: when it counts anew, it may miss an object
/// that has just been created, and a test that expects a refusal at that moment sees none. A cluster of this suite sees one such moment at most.
const QUOTA_SYNC: Duration = Duration::from_secs(5 * 60);

/// A cluster of this suite.
pub(crate) async fn cluster() -> Result<Cluster> {
    Cluster::start_as(&Setup { audit_policy: AUDIT_POLICY.to_owned(), quota_sync: QUOTA_SYNC }).await
}

/// The shared installation: failure policy `Fail`, one webhook, one controller.
pub(crate) async fn scene() -> Result<Scene<'static>> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    let shared = CLUSTER.get_or_try_init(cluster).await?;
    let fixture = WORLD
        .get_or_try_init(async || {
            let product = Product::install(shared, options(FailurePolicy::Fail)).await?;
            let (webhook, controller) =
                tokio::try_join!(product.start_webhook(), product.start_controller())?;
            anyhow::Ok(Fixture { product, _webhook: webhook, _controller: controller })
        })
        .await?;
    Ok(Scene::of(fixture.product.cluster()))
}

/// The steps of an administrator (`system:masters`) in one installation.
pub(crate) struct Scene<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) steps: Steps,
}

impl<'c> Scene<'c> {
    pub(crate) fn of(cluster: &'c Cluster) -> Self {
        Self { cluster, steps: Steps::of(cluster.admin()) }
    }

    pub(crate) fn hierarchical(&self, namespace: &str) -> Api<HierarchicalResourceQuota> {
        Api::namespaced(self.steps.client.clone(), namespace)
    }

    pub(crate) fn core(&self, namespace: &str) -> Api<ResourceQuota> {
        Api::namespaced(self.steps.client.clone(), namespace)
    }

    pub(crate) fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.steps.client.clone(), namespace)
    }

    /// Creates or changes a hierarchical quota, as an ordinary client does.
    pub(crate) async fn set(&self, namespace: &str, name: &str, hard: Value) -> Result<()> {
        let hard: BTreeMap<String, Quantity> = serde_json::from_value(hard)?;
        let spec = HierarchicalResourceQuotaSpec { hard: Some(hard) };
        let api = self.hierarchical(namespace);
        persistently(&format!("the quota {name} in {namespace} is written"), async || {
            let Some(mut known) = api.get_opt(name).await? else {
                let quota = HierarchicalResourceQuota::new(name, spec.clone());
                return api.create(&PostParams::default(), &quota).await;
            };
            known.spec = spec.clone();
            api.replace(name, &PostParams::default(), &known).await
        })
        .await?
        .with_context(|| format!("writing the quota {name} in {namespace}"))?;
        Ok(())
    }

    /// The same, and waits until it is enforced.
    pub(crate) async fn limit(&self, namespace: &str, name: &str, hard: Value) -> Result<()> {
        self.set(namespace, name, hard).await?;
        self.enforced(namespace, name).await.map(drop)
    }

    /// Waits until a quota shows its present limits as enforced.
    pub(crate) async fn enforced(&self, namespace: &str, name: &str) -> Result<HierarchicalResourceQuota> {
        self.quota_is(namespace, name, "is enforced", |quota| {
            let status = quota.status.clone().unwrap_or_default();
            numbers(status.hard.as_ref()) == numbers(quota.spec.hard.as_ref())
                && condition(&status, hns_api::conditions::ENFORCED).is_some_and(|(holds, _, _)| holds)
        })
        .await
    }

    /// Waits until a quota is as `holds` wants it.
    pub(crate) async fn quota_is(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&HierarchicalResourceQuota) -> bool,
    ) -> Result<HierarchicalResourceQuota> {
        let api = self.hierarchical(namespace);
        eventually(&format!("the quota {name} in {namespace} {what}"), PATIENCE, async || {
            let quota = api.get(name).await.map_err(|error| error.to_string())?;
            if holds(&quota) { Ok(quota) } else { Err(format!("{quota:?}")) }
        })
        .await
    }

    /// Waits until a quota shows this usage, and no other.
    pub(crate) async fn uses(&self, namespace: &str, name: &str, used: &[(&str, &str)]) -> Result<()> {
        let wanted = amounts(used);
        self.quota_is(namespace, name, &format!("shows the usage {wanted:?}"), |quota| {
            let status = quota.status.clone().unwrap_or_default();
            numbers(status.used.as_ref()) == numbers(Some(&wanted))
        })
        .await
        .map(drop)
    }

    /// Waits until the derived quota of a namespace has exactly these limits, and they are in force.
    pub(crate) async fn derived(&self, namespace: &str, hard: &[(&str, &str)]) -> Result<ResourceQuota> {
        let wanted = Some(amounts(hard));
        let what = format!("the derived quota of {namespace} has the limits {hard:?}");
        eventually(&what, PATIENCE, async || {
            let quota = self.core(namespace).get(DERIVED_QUOTA).await.map_err(|error| error.to_string())?;
            let limits =
                [quota.spec.clone().unwrap_or_default().hard, quota.status.clone().unwrap_or_default().hard];
            if limits.iter().all(|it| numbers(it.as_ref()) == numbers(wanted.as_ref())) {
                Ok(quota)
            } else {
                Err(format!("{quota:?}"))
            }
        })
        .await
    }

    /// Waits until a namespace has no derived quota.
    pub(crate) async fn not_derived(&self, namespace: &str) -> Result<()> {
        eventually(&format!("{namespace} has no derived quota"), PATIENCE, async || {
            match self.core(namespace).get_opt(DERIVED_QUOTA).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Creates a Service; tries again as long as the answer says that this may help.
    pub(crate) async fn serve(&self, namespace: &str, name: &str) -> Result<kube::Result<Service>> {
        let service = service(name);
        persistently(&format!("creating the Service {name} in {namespace}"), async || {
            self.services(namespace).create(&PostParams::default(), &service).await
        })
        .await
    }

    /// Creates Services that must be allowed.
    pub(crate) async fn serve_all(&self, namespace: &str, names: &[&str]) -> Result<()> {
        for name in names {
            self.serve(namespace, name).await?.with_context(|| format!("creating {name} in {namespace}"))?;
        }
        Ok(())
    }

    /// The refusal of a Service.
    pub(crate) async fn refused(&self, namespace: &str, name: &str) -> Result<Status> {
        let status = hns_e2e::refusal(self.serve(namespace, name).await?);
        ensure!((status.code, status.reason.as_str()) == (403, "Forbidden"), "{status:?}");
        Ok(status)
    }

    pub(crate) async fn patch_service(&self, namespace: &str, name: &str, patch: Value) -> Result<()> {
        self.services(namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(crate) async fn remove(&self, namespace: &str, service: &str) -> Result<()> {
        self.services(namespace).delete(service, &DeleteParams::default()).await.map(drop)?;
        Ok(())
    }

    /// Merges `patch` into the derived quota of a namespace.
    pub(crate) async fn patch_derived(&self, namespace: &str, patch: Value) -> kube::Result<ResourceQuota> {
        self.core(namespace).patch(DERIVED_QUOTA, &PatchParams::default(), &Patch::Merge(patch)).await
    }
}

/// Repeats a request as long as its answer is a 5xx or a conflict, as an ordinary client does; prints these answers.
pub(crate) async fn persistently<T>(
    what: &str,
    request: impl AsyncFn() -> kube::Result<T>,
) -> Result<kube::Result<T>> {
    eventually(what, PATIENCE, async || match request().await {
        Err(kube::Error::Api(status)) if status.code >= 500 || status.reason == "Conflict" => {
            println!("{what}: {} {}", status.code, status.message);
            Err(status.message)
        }
        other => Ok(other),
    })
    .await
}

pub(crate) fn service(name: &str) -> Service {
    let spec = json!({ "metadata": { "name": name }, "spec": { "type": "ExternalName", "externalName": "example.com" } });
    serde_json::from_value(spec).expect("it is a Service")
}

/// Amounts as the API has them.
pub(crate) fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect()
}

/// Amounts as numbers: `1` and `1000m` are equal.
pub(crate) fn numbers(amounts: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, forest::Quantity> {
    let parse = |text: &str| text.parse().expect("the API server shows quantities only");
    amounts.into_iter().flatten().map(|(name, amount)| (name.clone(), parse(&amount.0))).collect()
}

/// A condition of a hierarchical quota: whether it holds, its reason, and its message.
pub(crate) fn condition(
    status: &HierarchicalResourceQuotaStatus,
    type_: &str,
) -> Option<(bool, String, String)> {
    let found = status.conditions.iter().flatten().find(|it| it.type_ == type_)?;
    Some((found.status == "True", found.reason.clone(), found.message.clone()))
}
