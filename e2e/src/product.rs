//! hns on a test cluster: its manifests from the checkout's `config/`, its registrations and policies as the controller writes
//! them, and its binaries as processes with tokens of their own service accounts. Never builds the binaries (`cargo build -p
//! hns-webhook -p hns-controller` does) and never gives them the administrator's rights.

mod manifests;
mod replica;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use hns_api::names::{self, CONFIG_CONFIG_MAP, SETTINGS_CONFIG_MAP};
use hns_cluster::settings::{DOCUMENT, FailurePolicy, SharedSettings, accurate};
use hns_runtime::args::parse_from;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

pub use self::replica::Replica;

use crate::cluster::pki::{self, Authority};
use crate::cluster::{Cluster, kubeconfig};
use crate::ports;
use crate::process::ProcessSpec;

/// The default namespace of hns; see [`Options::namespace`].
pub const NAMESPACE: &str = "hnc-system";
/// The user name of the webhook.
pub const WEBHOOK_USER: &str = "system:serviceaccount:hnc-system:hns-webhook";
/// The user name of the controller.
pub const CONTROLLER_USER: &str = "system:serviceaccount:hnc-system:hns-controller";

/// The variable that names another directory with `hns-webhook` and `hns-controller`.
pub const BINARIES: &str = "HNS_BINARIES";

/// Arguments of Helm that name the images, which the chart's defaults do not: `NAME:TAG` for each of the two binaries.
pub const CHART_IMAGES: [&str; 4] =
    ["--set", "controller.image.repository=hns-controller", "--set", "webhook.image.repository=hns-webhook"];

const TOKEN_SECONDS: i64 = 24 * 60 * 60;
const GRACE: Duration = Duration::from_secs(15);

/// One of the two binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// `hns-webhook`.
    Webhook,
    /// `hns-controller`.
    Controller,
}

impl Component {
    /// The name of the binary, which is also the name of its service account.
    pub fn name(self) -> &'static str {
        match self {
            Component::Webhook => "hns-webhook",
            Component::Controller => "hns-controller",
        }
    }
}

/// How the product is installed and started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file with the definitions, the namespace, the service accounts and their rights; by default the checkout's
    /// `config/default.yaml`.
    pub manifests: PathBuf,
    /// The namespace to install it in; replaces [`NAMESPACE`] in the manifests.
    pub namespace: String,
    /// Further arguments for every webhook.
    pub webhook_args: Vec<String>,
    /// Further arguments for every controller.
    pub controller_args: Vec<String>,
    /// Whether to install admission policies; without them, every denial comes from the webhook.
    pub policies: bool,
    /// Whether hns makes the webhook's certificate itself. Registrations then name no authority.
    pub internal_certificates: bool,
    /// The failure policy of hierarchical quotas, as the registrations have it from the start; `None` without quotas. Set it with
    /// [`Options::with_quotas`], which also sets the flags and the manifests.
    pub quotas: Option<FailurePolicy>,
    /// The section `accurate` of the settings; `None` without Accurate's API. With it, the definition of `SubNamespace` is installed.
    /// By default as [`WITH_ACCURATE`] says.
    pub accurate: Option<accurate::Settings>,
}

impl Options {
    /// The default options with hierarchical quotas: the rights of `config/hrq.yaml`, the registrations, and the flags.
    #[must_use]
    pub fn with_quotas(failure_policy: FailurePolicy) -> Self {
        let flags = vec!["--enable-hrq".to_owned(), format!("--hrq-failure-policy={failure_policy:?}")];
        Self {
            manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/hrq.yaml"),
            // Settings are written for the webhook's flags; the controller then writes those of its own.
            webhook_args: flags.clone(),
            controller_args: flags,
            quotas: Some(failure_policy),
            ..Self::default()
        }
    }
}

/// If this environment variable is set, installations serve Accurate's API too, if the test does not say otherwise.
pub const WITH_ACCURATE: &str = "HNS_WITH_ACCURATE";

fn is_with_accurate() -> bool {
    std::env::var_os(WITH_ACCURATE).is_some_and(|value| !value.is_empty())
}

impl Default for Options {
    fn default() -> Self {
        Self {
            manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/default.yaml"),
            namespace: NAMESPACE.to_owned(),
            webhook_args: Vec::new(),
            controller_args: Vec::new(),
            policies: true,
            internal_certificates: false,
            quotas: None,
            accurate: is_with_accurate()
                .then(|| accurate::Settings { enabled: true, ..accurate::Settings::default() }),
        }
    }
}

/// The options of one replica.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The pod's name, which is its identity in a lease; generated when absent.
    pub pod_name: Option<String>,
    /// The address of its API server, for example [`crate::Proxy::url`]; the cluster's when absent. `http` means plain.
    pub server: Option<String>,
    /// The port for admission; the one in the registrations when absent.
    pub webhook_port: Option<u16>,
    /// Arguments after those of [`Options`].
    pub args: Vec<String>,
}

/// hns, installed on a cluster.
#[derive(Debug)]
pub struct Product<'c> {
    cluster: &'c Cluster,
    options: Options,
    /// Its kubeconfigs and logs, within the cluster's directory.
    directory: PathBuf,
    /// The serving certificate: `tls.crt`, `tls.key`, `ca.crt`.
    certificates: PathBuf,
    ca_pem: String,
    webhook_port: u16,
    started: AtomicU32,
}

impl<'c> Product<'c> {
    /// Applies the CRDs and waits until they are served, then the namespace and RBAC, then the policies, then the registrations,
    /// which name a Service that leads to a free port on loopback. Starts nothing: with fail-closed registrations, requests that
    /// they match are refused until [`Product::start_webhook`].
    pub async fn install(cluster: &'c Cluster, options: Options) -> anyhow::Result<Self> {
        let product = Self::prepare(cluster, options)?;
        let namespace = &product.options.namespace;
        let manifests = manifests::moved(manifests::read(&product.options.manifests)?, namespace)?;
        manifests::apply_crds(cluster, &manifests).await?;
        manifests::apply(cluster, &manifests::of_kinds(&manifests, &manifests::RIGHTS)?).await?;
        manifests::apply(cluster, &manifests::of_name(&manifests, names::MISSING_PARENTS)).await?;
        if let Some(accurate) = &product.options.accurate {
            if is_with_accurate() {
                let all = manifests::read(&product.options.manifests.with_file_name("accurate.yaml"))?;
                manifests::apply(cluster, &manifests::further_rights(&all, "with-accurate")?).await?;
            }
            product.define_sub_namespaces().await?;
            product.configure_accurate(accurate).await?;
        }
        // Policies first: the registrations exclude what they refuse.
        if product.options.policies {
            manifests::apply_owned(
                cluster,
                manifests::moved(manifests::policies(cluster, &product.options)?, namespace)?,
            )
            .await?;
        }
        product.install_registrations().await?;
        Ok(product)
    }

    /// Applies the definition of `SubNamespace`, with the webhook as the converter.
    pub async fn define_sub_namespaces(&self) -> anyhow::Result<()> {
        let mut definitions =
            manifests::moved(manifests::read(&definition_of_sub_namespaces())?, &self.options.namespace)?;
        let authority = (!self.options.internal_certificates).then_some(self.ca_pem.as_str());
        for definition in &mut definitions {
            manifests::through_service(definition, self.webhook_port, authority)?;
        }
        manifests::apply_crds(self.cluster, &definitions).await
    }

    /// Writes the document of the settings with this section for Accurate's API, from which the controller makes the settings in
    /// force, and the settings in force themselves, for a webhook without a controller.
    pub async fn configure_accurate(&self, accurate: &accurate::Settings) -> anyhow::Result<()> {
        let document = SharedSettings { accurate: accurate.clone(), ..SharedSettings::default() }.text();
        let config_map = |name: &str| self.config_map(name, &document);
        manifests::apply(self.cluster, &[CONFIG_CONFIG_MAP, SETTINGS_CONFIG_MAP].map(config_map)).await
    }

    fn config_map(&self, name: &str, document: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": self.options.namespace },
            "data": { DOCUMENT: document },
        })
    }

    /// Applies the service accounts and their rights of another manifest.
    pub async fn grant_rights_of(&self, file: &Path) -> anyhow::Result<()> {
        let manifests = manifests::moved(manifests::read(file)?, &self.options.namespace)?;
        manifests::apply(self.cluster, &manifests::of_kinds(&manifests, &manifests::RIGHTS)?).await
    }

    fn prepare(cluster: &'c Cluster, options: Options) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("hns-").tempdir_in(cluster.dir())?.keep();
        let certificates = directory.join("certificates");
        fs::create_dir(&certificates)?;
        let authority = Authority::new("hns-webhook")?;
        let signed =
            authority.server(&["127.0.0.1", "localhost", &names::webhook_host(&options.namespace)])?;
        pki::write(&certificates, "ca.crt", &authority.pem())?;
        signed.write(&certificates, "tls")?;
        let [webhook_port] = ports::free()?;
        Ok(Self {
            cluster,
            options,
            directory,
            certificates,
            ca_pem: authority.pem(),
            webhook_port,
            started: AtomicU32::new(0),
        })
    }

    /// The cluster it is installed on.
    pub fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// The port that the registrations name after [`Product::install`].
    pub fn webhook_port(&self) -> u16 {
        self.webhook_port
    }

    /// The authority (PEM) of the webhook's serving certificate, unless hns makes it itself.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The directory with `tls.crt`, `tls.key` and `ca.crt` of every replica, unless hns makes them itself.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// Applies the registrations of the default settings, with a Service that leads to loopback.
    pub async fn install_registrations(&self) -> anyhow::Result<()> {
        self.route_to(self.webhook_port).await
    }

    /// Sends reviews to another port on loopback, for example that of a second replica.
    pub async fn route_to(&self, port: u16) -> anyhow::Result<()> {
        let mut documents = manifests::moved(
            manifests::registrations(self.cluster, &self.options)?,
            &self.options.namespace,
        )?;
        let authority = (!self.options.internal_certificates).then_some(self.ca_pem.as_str());
        for document in &mut documents {
            manifests::through_service(document, port, authority)?;
        }
        manifests::apply(self.cluster, &[manifests::service(&self.options.namespace)]).await?;
        manifests::apply_owned(self.cluster, documents).await
    }

    /// Deletes the webhook configurations; everything else of hns stays, including the policies.
    pub async fn uninstall_registrations(&self) -> anyhow::Result<()> {
        manifests::delete(self.cluster, &manifests::registrations(self.cluster, &self.options)?).await
    }

    /// Starts a webhook at the registered port and waits until it is ready.
    pub async fn start_webhook(&self) -> anyhow::Result<Replica> {
        self.start(Component::Webhook, Launch::default()).await
    }

    /// Starts a controller and waits until it is ready.
    pub async fn start_controller(&self) -> anyhow::Result<Replica> {
        self.start(Component::Controller, Launch::default()).await
    }

    /// Starts one replica of either binary and waits until it is ready.
    pub async fn start(&self, component: Component, launch: Launch) -> anyhow::Result<Replica> {
        let replica = self.launch(component, launch).await?;
        replica.wait_ready().await?;
        Ok(replica)
    }

    /// Starts one replica without waiting.
    pub async fn launch(&self, component: Component, launch: Launch) -> anyhow::Result<Replica> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let pod_name = launch.pod_name.clone();
        let pod_name = pod_name.unwrap_or_else(|| format!("{}-{number}", component.name()));
        let kubeconfig = self.directory.join(format!("{pod_name}.{number}.kubeconfig"));
        let token = token(self.cluster, &self.options.namespace, component).await?;
        self.write_kubeconfig(&kubeconfig, &token, launch.server.as_deref())?;

        let [metrics_port, health_port, own_port] = ports::free()?;
        let webhook_port = match (launch.webhook_port, component) {
            (Some(port), _) => port,
            (None, Component::Webhook) => self.webhook_port,
            (None, Component::Controller) => own_port,
        };
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespace={}", self.options.namespace),
            format!("--webhook-server-port={webhook_port}"),
            format!("--metrics-addr=127.0.0.1:{metrics_port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
        ];
        args.push(if self.options.internal_certificates {
            "--enable-internal-cert-management".to_owned()
        } else {
            format!("--cert-dir={}", self.certificates.display())
        });
        if component == Component::Controller {
            args.push(format!("--admission-policies={}", self.options.policies));
            args.push(format!("--webhook-service-port={}", self.webhook_port));
            if !self.options.internal_certificates {
                args.push(format!("--webhook-ca-bundle={}", manifests::base64(&self.ca_pem)?));
            }
        }
        args.extend_from_slice(match component {
            Component::Webhook => &self.options.webhook_args,
            Component::Controller => &self.options.controller_args,
        });
        args.extend(launch.args);
        if component == Component::Webhook {
            self.put_in_force(&args).await?;
        }
        let log = self.directory.join(format!("{pod_name}.log"));
        start(
            self.cluster,
            component,
            (pod_name, log),
            args,
            [webhook_port, metrics_port, health_port],
            &token,
        )
    }

    /// Writes the settings of these flags, as a controller with the same flags does: a webhook is ready only when there are
    /// settings, and many tests have no controller.
    async fn put_in_force(&self, args: &[String]) -> anyhow::Result<()> {
        let words = std::iter::once("settings").chain(args.iter().map(String::as_str));
        let flags = parse_from::<hns_controller::args::Args>(words)?.args.shared;
        let accurate = self.options.accurate.clone().unwrap_or_default();
        let document = flags.over(SharedSettings { accurate, ..SharedSettings::default() }).text();
        manifests::apply(self.cluster, &[self.config_map(SETTINGS_CONFIG_MAP, &document)]).await
    }

    fn write_kubeconfig(&self, path: &Path, token: &str, server: Option<&str>) -> anyhow::Result<()> {
        let direct = self.cluster.url();
        let server = server.unwrap_or(&direct);
        let ca = self.cluster.ca_file();
        let ca = server.starts_with("https:").then_some(ca.as_path());
        kubeconfig::write(path, server, ca, &json!({ "token": token }))
    }
}

/// The checkout's file with the definition of `SubNamespace`.
pub fn definition_of_sub_namespaces() -> PathBuf {
    let file = "../config/accurate/accurate.cybozu.com_subnamespaces.yaml";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Starts a pod's program with this token; the ports are those of admission, metrics and health in `args`.
pub(crate) fn start(
    cluster: &Cluster,
    component: Component,
    (pod_name, log): (String, PathBuf),
    args: Vec<String>,
    ports: [u16; 3],
    token: &str,
) -> anyhow::Result<Replica> {
    // As in the chart.
    let env = [("POD_NAME", &*pod_name), ("MIMALLOC_PURGE_DELAY", "0"), ("RUST_BACKTRACE", "1")];
    let spec = ProcessSpec {
        log,
        name: pod_name.clone(),
        program: binary(component)?,
        args: args.into_iter().map(Into::into).collect(),
        env: env.map(|(name, value)| (name.into(), value.into())).into(),
        directory: cluster.dir().to_owned(),
        grace: GRACE,
    };
    Replica::start(spec, ports, credential(token)?)
}

/// A new token of the component's service account in this namespace.
pub(crate) async fn token(
    cluster: &Cluster,
    namespace: &str,
    component: Component,
) -> anyhow::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let name = component.name();
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .with_context(|| format!("asking for a token of the service account {namespace}/{name}"))?;
    Ok(answer.status.context("a token request without a token")?.token)
}

/// The name of a token in the audit log: the identity in the token itself.
fn credential(token: &str) -> anyhow::Result<String> {
    let payload = token.split('.').nth(1).context("a token without a payload")?;
    // From the alphabet of tokens to the standard base64 alphabet.
    let mut payload = payload.replace('-', "+").replace('_', "/");
    payload.extend(std::iter::repeat_n('=', (4 - payload.len() % 4) % 4));
    let ByteString(payload) = serde_json::from_value(payload.into())?;
    let payload: Value = serde_json::from_slice(&payload)?;
    let id = payload["jti"].as_str().context("a token without an identity")?;
    Ok(format!("JTI={id}"))
}

/// The binary in the directory that [`BINARIES`] names, or else beside the running executable, where cargo puts it.
fn binary(component: Component) -> anyhow::Result<PathBuf> {
    let name = component.name();
    if let Some(directory) = std::env::var_os(BINARIES) {
        let path = Path::new(&directory).join(name);
        anyhow::ensure!(path.is_file(), "{BINARIES} is set, and {} is not there", path.display());
        return Ok(path);
    }
    beside(name)?.with_context(|| {
        format!("{name} is not beside the running executable; run `cargo build -p hns-webhook -p hns-controller` first")
    })
}

/// The executable of this name beside the running one or one directory up (tests run from `deps`).
fn beside(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let current = std::env::current_exe().context("finding the running executable")?;
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let mut directories = current.ancestors().skip(1).take(2);
    Ok(directories.find_map(|directory| Some(directory.join(&name)).filter(|path| path.is_file())))
}
