//! The arguments and files of the control plane's programs. Starts nothing.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::{kubeconfig, pki};

/// The user and the object of every write, without bodies. The omitted stage would count every request twice.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
";

/// Settings of the control plane.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The audit policy (`audit.k8s.io/v1`); by default it records every write, without bodies.
    pub audit_policy: String,
    /// How often the quota controller counts everything anew. A quota that is older than the discovery of its kind is reconciled
    /// only then.
    pub quota_sync: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self { audit_policy: AUDIT_POLICY.to_owned(), quota_sync: Duration::from_secs(5) }
    }
}

/// The files and ports of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
    /// The address of the API server, for clients and for pods.
    pub(crate) address: Ipv4Addr,
    pub(crate) etcd_port: u16,
    pub(crate) etcd_peer_port: u16,
    pub(crate) api_server_port: u16,
    pub(crate) setup: Setup,
}

impl Layout {
    pub(crate) fn url(&self) -> String {
        format!("https://{}:{}", self.address, self.api_server_port)
    }

    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    fn controller_manager_kubeconfig(&self) -> PathBuf {
        self.directory.join("controller-manager.kubeconfig")
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.directory.join("pki")
    }

    /// Writes the kubeconfig `NAME.kubeconfig` of the user with the certificate `NAME.crt`.
    pub(crate) fn write_kubeconfig(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(format!("{name}.kubeconfig"));
        let user = kubeconfig::certificate_user(&self.pki(), name);
        kubeconfig::write(&path, &self.url(), Some(&self.pki().join("ca.crt")), &user)?;
        Ok(path)
    }

    /// Writes certificates, kubeconfigs and the audit policy; returns the CA's certificate (PEM).
    pub(crate) fn write_files(&self) -> anyhow::Result<String> {
        let pki = self.pki();
        fs::create_dir(&pki).context("creating the directory of certificates")?;
        let ca_pem = pki::write_all(&pki, self.address)?;
        pki::write(&self.directory, "audit-policy.yaml", &self.setup.audit_policy)?;
        self.write_admission_configuration()?;
        for user in ["admin", "controller-manager"] {
            self.write_kubeconfig(user)?;
        }
        Ok(ca_pem)
    }

    /// Lets the API server present a client certificate to every webhook, as in `docs/webhook-access.md`. Most do not ask for it.
    fn write_admission_configuration(&self) -> anyhow::Result<()> {
        let user = json!({ "name": "*", "user": kubeconfig::certificate_user(&self.pki(), "webhooks") });
        let users = json!({ "apiVersion": "v1", "kind": "Config", "users": [user] });
        pki::write(&self.directory, "webhooks.kubeconfig", &users.to_string())?;
        let plugin = |name: &str| {
            json!({
                "name": name,
                "configuration": {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "WebhookAdmissionConfiguration",
                    "kubeConfigFile": self.directory.join("webhooks.kubeconfig"),
                },
            })
        };
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [plugin("ValidatingAdmissionWebhook"), plugin("MutatingAdmissionWebhook")],
        });
        pki::write(&self.directory, "admission.yaml", &configuration.to_string())
    }

    pub(crate) fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        vec![
            format!("--data-dir={}", shown(&self.directory.join("etcd"))),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // The data is thrown away, and the kernel keeps the writes of a killed process.
            "--unsafe-no-fsync".into(),
        ]
    }

    pub(crate) fn api_server(&self) -> Vec<String> {
        let file = |name: &str| shown(&self.pki().join(name));
        vec![
            format!("--bind-address={}", self.address),
            format!("--advertise-address={}", self.address),
            format!("--secure-port={}", self.api_server_port),
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--admission-control-config-file={}", shown(&self.directory.join("admission.yaml"))),
            "--authorization-mode=Node,RBAC".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", file("service-accounts.key")),
            "--service-cluster-ip-range=10.0.0.0/16".into(),
            format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
            "--requestheader-allowed-names=front-proxy-client".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
            format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
            // Pods find the API server by the endpoint that it writes itself, which must not be loopback.
            format!(
                "--endpoint-reconciler-type={}",
                if self.address.is_loopback() { "none" } else { "lease" }
            ),
            format!("--kubelet-client-certificate={}", file("kubelet-client.crt")),
            format!("--kubelet-client-key={}", file("kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--audit-policy-file={}", shown(&self.directory.join("audit-policy.yaml"))),
            format!("--audit-log-path={}", shown(&self.audit_log())),
            // A write is in the log before its response is complete, so a test can count what it has just seen.
            "--audit-log-mode=blocking".into(),
            // Never rotated: offsets into the file stay valid.
            "--audit-log-maxsize=100000".into(),
            "--profiling=false".into(),
        ]
    }

    pub(crate) fn controller_manager(&self) -> Vec<String> {
        let file = |name: &str| shown(&self.pki().join(name));
        vec![
            format!("--kubeconfig={}", shown(&self.controller_manager_kubeconfig())),
            "--leader-elect=false".into(),
            // Each controller has its own identity, as in clusters of kubeadm.
            "--use-service-account-credentials=true".into(),
            format!("--service-account-private-key-file={}", file("service-accounts.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            // No test uses this port, and a port could clash.
            "--secure-port=0".into(),
            // With the default of 20 requests a second, tests with many namespaces would wait for this limit.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
            format!("--resource-quota-sync-period={}s", self.setup.quota_sync.as_secs()),
            "--profiling=false".into(),
        ]
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
