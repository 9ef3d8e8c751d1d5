//! A cluster with a node, and hns on it as its chart installs it with its default values.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hns_e2e::node::sandbox::Inside;
use hns_e2e::product::CHART_IMAGES;
use hns_e2e::{Cluster, Command, Node, Programs, Steps, eventually};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::load;

pub(crate) const NAMESPACE: &str = "hnc-system";
pub(crate) const RELEASE: &str = "hns";
pub(crate) const WEBHOOK: &str = "deployment/hnc-webhook";
pub(crate) const CONTROLLER: &str = "deployment/hnc-controller-manager";

const REGISTRATION: &str = "hnc-validating-webhook-configuration";
const SERVICE: &str = "hnc-webhook-service";
pub(crate) const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/crds.yaml");

/// From `helm install` until every pod is ready and the webhook is asked.
const INSTALLED: Duration = Duration::from_secs(30);
/// How often the promise may be tried: it is one for a machine that has nothing else to do.
const ATTEMPTS: usize = 3;
/// How long anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct World<'c> {
    pub(crate) cluster: &'c Cluster,
    node: Node<'c>,
    helm: PathBuf,
}

/// The image that [`CHART_IMAGES`] names for a binary.
pub(crate) fn reference(binary: &str) -> String {
    format!("{binary}:{}", env!("CARGO_PKG_VERSION"))
}

impl<'c> World<'c> {
    pub(crate) async fn start(cluster: &'c Cluster, sandbox: &Inside) -> Result<Self> {
        let began = Instant::now();
        let node = Node::start(cluster, sandbox).await?;
        eprintln!("node: ready {:.1} s after its start", began.elapsed().as_secs_f32());
        for archive in &sandbox.images()?.archives {
            node.load(archive).await?;
        }
        Ok(Self { cluster, node, helm: Programs::helm()? })
    }

    pub(crate) fn steps(&self) -> Steps {
        Steps::of(self.cluster.admin())
    }

    pub(crate) fn kubectl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> hns_e2e::Kubectl {
        self.cluster.kubectl().args(args)
    }

    /// Helm, which keeps what it remembers within the cluster's directory.
    pub(crate) fn helm<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let kubeconfig = self.cluster.kubeconfig();
        let leading = [Path::new("--kubeconfig"), kubeconfig.as_path()];
        let mut helm = Command::new("helm", &self.helm, leading);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm = helm.env(name, self.cluster.dir().join("helm"));
        }
        helm.args(args).args(["--namespace", NAMESPACE])
    }

    /// `helm install` with default values, within the time that is promised.
    pub(crate) async fn install(&self) -> Result<String> {
        for _ in 0..ATTEMPTS {
            let began = Instant::now();
            let pods = self.install_with(&["--create-namespace"]).await?;
            let took = began.elapsed();
            if took < INSTALLED {
                let took = took.as_secs_f32();
                return Ok(format!("{} pods ready after {took:.1} s: {}", pods.len(), pods.join(", ")));
            }
            eprintln!("node: an installation took {took:.1?}, more than {INSTALLED:?}");
            self.uninstall().await?;
            self.kubectl(["delete", "--timeout=60s", "-f", DEFINITIONS]).ok().await?;
            self.steps().delete_namespace(NAMESPACE).await?;
        }
        bail!("each of {ATTEMPTS} installations took more than {INSTALLED:?}")
    }

    /// Just `helm uninstall`, without a step before. Waits until the garbage collector has deleted the registrations.
    pub(crate) async fn uninstall(&self) -> Result<()> {
        self.helm(["uninstall", RELEASE, "--wait", "--timeout=120s"]).ok().await?;
        let registrations = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        self.kubectl(["wait", "--for=delete", "--timeout=60s", registrations, "--all"]).ok().await.map(drop)
    }

    /// `helm install`; gives the names of the pods once all are ready and reviews reach them.
    pub(crate) async fn install_with(&self, args: &[&str]) -> Result<Vec<String>> {
        self.helm(["install", RELEASE, &chart()]).args(CHART_IMAGES).args(args).ok().await?;
        let pods = self.all_ready().await?;
        // The node may learn of the last pod a moment later.
        eventually("the webhook is asked", PATIENCE, async || {
            let asked = load::refused(&self.cluster.admin(), "default").await;
            asked.map_err(|error| format!("{error:#}"))
        })
        .await?;
        Ok(pods)
    }

    /// Waits until the Deployments have all their pods, ready, and no others are there. Gives their names.
    pub(crate) async fn all_ready(&self) -> Result<Vec<String>> {
        for deployment in [WEBHOOK, CONTROLLER] {
            self.rolled_out(deployment).await?;
        }
        eventually("every pod is ready", PATIENCE, async || {
            let pods = self.pods().await.map_err(|error| error.to_string())?;
            let unready: Vec<&str> =
                pods.iter().filter(|(_, ready)| !ready).map(|(name, _)| name.as_str()).collect();
            if !pods.is_empty() && unready.is_empty() {
                Ok(pods.iter().map(|(name, _)| name.clone()).collect())
            } else {
                Err(format!("not ready: {unready:?}"))
            }
        })
        .await
    }

    pub(crate) async fn rolled_out(&self, deployment: &str) -> Result<()> {
        let status = ["rollout", "status", deployment, "--namespace", NAMESPACE, "--timeout=120s"];
        self.kubectl(status).ok().await.map(drop)
    }

    /// The pods of hns, and whether each is ready.
    pub(crate) async fn pods(&self) -> Result<Vec<(String, bool)>> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.admin(), NAMESPACE);
        let list = pods.list(&ListParams::default()).await?;
        Ok(list
            .items
            .into_iter()
            .map(|pod| (pod.metadata.name.clone().unwrap_or_default(), ready(&pod)))
            .collect())
    }

    /// That requests really take the way through the Service: the registrations name it and carry an authority, and both
    /// replicas stand behind it.
    pub(crate) async fn service(&self) -> Result<String> {
        let registrations: Api<ValidatingWebhookConfiguration> = Api::all(self.cluster.admin());
        let registered = registrations.get(REGISTRATION).await?.webhooks.unwrap_or_default();
        ensure!(!registered.is_empty(), "{REGISTRATION} has no webhooks");
        for webhook in &registered {
            let config = &webhook.client_config;
            let service =
                config.service.as_ref().with_context(|| format!("{} has no Service", webhook.name))?;
            ensure!(service.name == SERVICE && service.namespace == NAMESPACE, "{service:?}");
            ensure!(config.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty()), "{}", webhook.name);
        }
        let addresses = eventually("two replicas are behind the Service", PATIENCE, async || {
            let addresses = self.endpoints().await.map_err(|error| format!("{error:#}"))?;
            if addresses.len() == 2 { Ok(addresses) } else { Err(format!("{addresses:?}")) }
        })
        .await?;
        Ok(format!("{} webhooks by way of {}", registered.len(), addresses.join(" and ")))
    }

    /// The pods' addresses that the Service leads to.
    pub(crate) async fn endpoints(&self) -> Result<Vec<String>> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.cluster.admin(), NAMESPACE);
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={SERVICE}"));
        let endpoints = slices.list(&of_service).await?.items.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints.filter(|endpoint| {
            endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
        });
        Ok(ready.flat_map(|endpoint| endpoint.addresses).collect())
    }

    /// What there is to know when something failed.
    pub(crate) async fn state(&self) -> String {
        let mut said = self.node.logs();
        for args in [
            &["get", "pods,events", "--namespace", NAMESPACE, "--output=wide"][..],
            &["describe", "pods", "--namespace", NAMESPACE],
            &["logs", "--namespace", NAMESPACE, "--selector=control-plane", "--tail=20", "--prefix"],
        ] {
            if let Ok(output) = self.kubectl(args.iter().copied()).run().await {
                let _ = writeln!(said, "{output}");
            }
        }
        said
    }
}

pub(crate) fn chart() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/hns").to_owned()
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = |condition: &&_| is(condition, "Ready");
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().flatten().any(|condition| ready(&condition))
}

fn is(condition: &k8s_openapi::api::core::v1::PodCondition, kind: &str) -> bool {
    condition.type_ == kind && condition.status == "True"
}
