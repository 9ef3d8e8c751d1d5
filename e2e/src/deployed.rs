//! Replaces scheduler, kubelet and kube-proxy where there is no node: one process for each of the product's Deployments, with the
//! Deployment's own arguments and a token of its own service account, and a Service that leads to it.
//!
//! It follows the Deployments only when asked, restarts nothing by itself, and never acts as the administrator.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use hns_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cluster::{Cluster, kubeconfig};
use crate::ports;
use crate::product::{self, Component, Replica};

/// The product's Deployments in one namespace, as processes.
#[derive(Debug)]
pub struct Deployed<'c> {
    cluster: &'c Cluster,
    namespace: String,
    /// The port of the Service and of the webhook itself.
    port: u16,
    directory: PathBuf,
    running: BTreeMap<&'static str, Running>,
    started: u32,
}

#[derive(Debug)]
struct Running {
    args: Vec<String>,
    replica: Replica,
}

impl<'c> Deployed<'c> {
    /// Starts nothing. `port` is that of the Service in the registrations; it must be free on loopback.
    pub fn new(cluster: &'c Cluster, namespace: &str, port: u16) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("deployed-").tempdir_in(cluster.dir())?.keep();
        let namespace = namespace.to_owned();
        Ok(Self { cluster, namespace, port, directory, running: BTreeMap::new(), started: 0 })
    }

    /// A port that is free at this moment.
    pub fn free_port() -> anyhow::Result<u16> {
        ports::free().map(|[port]| port)
    }

    /// Reconciles the processes with the present Deployments: stops and restarts a changed one, and stops one whose Deployment is
    /// deleted or runs another image. Waits for the end of what it stops, and for nothing else.
    pub async fn follow(&mut self) -> anyhow::Result<()> {
        self.route().await?;
        for component in [Component::Controller, Component::Webhook] {
            let wanted = self.args(component).await?;
            if self.running.get(component.name()).map(|it| &it.args) == wanted.as_ref() {
                continue;
            }
            if let Some(running) = self.running.remove(component.name()) {
                running.replica.terminate().await?;
            }
            if let Some(args) = wanted {
                let replica = self.start(component, &args).await?;
                self.running.insert(component.name(), Running { args, replica });
            }
        }
        Ok(())
    }

    /// Stops the process of a Deployment, as if its node were lost; [`Deployed::follow`] starts it again.
    pub async fn stop(&mut self, component: Component) -> anyhow::Result<()> {
        match self.running.remove(component.name()) {
            Some(running) => running.replica.terminate().await.map(drop),
            None => Ok(()),
        }
    }

    /// Waits until all processes are ready.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        for running in self.running.values() {
            running.replica.wait_ready().await?;
        }
        Ok(())
    }

    /// The process of a Deployment, if it runs.
    pub fn replica(&self, component: Component) -> Option<&Replica> {
        self.running.get(component.name()).map(|running| &running.replica)
    }

    /// Leads the Service to loopback, where no proxy rewrites addresses. The Service of a manifest stays as it is.
    async fn route(&self) -> anyhow::Result<()> {
        let services: Api<Service> = Api::namespaced(self.cluster.admin(), &self.namespace);
        let Some(service) = services.get_opt(names::WEBHOOK_SERVICE).await? else { return Ok(()) };
        if service.spec.and_then(|spec| spec.external_name).is_none() {
            let patch =
                Patch::Merge(json!({ "spec": { "type": "ExternalName", "externalName": "localhost" } }));
            services.patch(names::WEBHOOK_SERVICE, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// The arguments of the Deployment's container; `None` if there is no such Deployment, it has no replicas, or it runs another
    /// program.
    async fn args(&self, component: Component) -> anyhow::Result<Option<Vec<String>>> {
        let name = match component {
            Component::Controller => names::CONTROLLER_DEPLOYMENT,
            Component::Webhook => names::WEBHOOK_DEPLOYMENT,
        };
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.admin(), &self.namespace);
        let found = deployments.get_opt(name).await?;
        let spec = found.and_then(|deployment| deployment.spec).filter(|spec| spec.replicas != Some(0));
        let pod = spec.and_then(|spec| spec.template.spec);
        let ours = pod.filter(|pod| pod.service_account_name.as_deref() == Some(component.name()));
        Ok(ours.and_then(|pod| pod.containers.into_iter().next()?.args))
    }

    async fn start(&mut self, component: Component, args: &[String]) -> anyhow::Result<Replica> {
        self.started += 1;
        let pod_name = format!("{}-{}", component.name(), self.started);
        let kubeconfig = self.directory.join(format!("{pod_name}.kubeconfig"));
        let token = product::token(self.cluster, &self.namespace, component).await?;
        let ca = self.cluster.ca_file();
        kubeconfig::write(&kubeconfig, &self.cluster.url(), Some(&ca), &json!({ "token": token }))?;
        let [metrics_port, health_port] = ports::free()?;
        let mut args = args.to_vec();
        // If a flag is given twice, the last one counts.
        args.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--metrics-addr=127.0.0.1:{metrics_port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
            format!("--webhook-server-port={}", self.port),
            "--webhook-server-bind-address=127.0.0.1".to_owned(),
        ]);
        let log = self.directory.join(format!("{pod_name}.log"));
        fs::write(&log, format!("{args:?}\n"))?;
        let ports = [self.port, metrics_port, health_port];
        product::start(self.cluster, component, (pod_name, log), args, ports, &token)
    }
}
