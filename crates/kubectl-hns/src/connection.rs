//! kubectl's connection flags, and the way from them to a client configuration. Never sends a request.

mod kubeconfig;
mod proxy;

use std::path::PathBuf;

use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::Failure;
use crate::flags::{Limit, Switch};

/// Which cluster, as whom, in which namespace.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// User to act as. It may be an ordinary user or a service account.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Group to act as; may be given more than once.
    #[arg(long, global = true, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,

    /// UID to act as.
    #[arg(long, global = true, value_name = "UID")]
    pub(crate) as_uid: Option<String>,

    /// Accepted as kubectl accepts it; nothing is cached.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// File with the certificate of the authority that the API server's own is signed by.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) certificate_authority: Option<String>,

    /// File with a client certificate for TLS.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_certificate: Option<String>,

    /// File with the key of the client certificate.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_key: Option<String>,

    /// Name of the kubeconfig's cluster to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Name of the kubeconfig's context to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Ask for answers that are not compressed.
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub(crate) disable_compression: Option<Switch>,

    /// The namespace that hns is installed in. Without it the one in the variable `HNS_INSTALLATION`, else the one that the
    /// registration of hns' webhooks names.
    #[arg(long, global = true, value_name = "NAMESPACE", env = "HNS_INSTALLATION", hide_env = true)]
    pub(crate) installation: Option<String>,

    /// Do not check the API server's certificate. This makes the connection insecure.
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub(crate) insecure_skip_tls_verify: Option<Switch>,

    /// The kubeconfig file; without it those in `KUBECONFIG`, else ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The namespace; without it that of the kubeconfig's context, else "default".
    #[arg(short = 'n', long, global = true, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// How long one request may take: seconds, or a time such as 1m30s; 0 for no limit. Without it 5s, and 30s for a
    /// page of a list.
    #[arg(long, global = true, value_name = "TIME")]
    pub(crate) request_timeout: Option<Limit>,

    /// Address and port of the API server.
    #[arg(short = 's', long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Name that the API server's certificate must bear, in place of its address.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,

    /// Bearer token.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Name of the kubeconfig's user to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

/// What the flags, the kubeconfig and the environment come to.
///
/// # Errors
/// A file cannot be read or makes no sense, or names what is not there.
pub(crate) async fn configuration(args: &ConnectionArgs) -> Result<Config, Failure> {
    let read = read(args)?;
    let mut config = match read {
        None => Config::incluster().map_err(|error| Failure::new(format!("Error: {error}")))?,
        Some(kubeconfig) => {
            let chosen = kubeconfig::chosen(&kubeconfig, args)?;
            let asked = chosen.clusters[0].cluster.as_ref().and_then(|it| it.proxy_url.clone());
            let mut config = Config::from_custom_kubeconfig(chosen, &KubeConfigOptions::default()).await?;
            // The library looks at the environment as well, but for the proxy's host, not the server's.
            config.proxy_url =
                proxy::choose(asked.as_deref(), &config.cluster_url, &proxy::Environment::of_process())?;
            config
        }
    };
    kubeconfig::impersonate(&mut config.auth_info, args);
    // A command says at once what the API server says. Waiting commands repeat on their own account.
    config.default_retry = false;
    config.disable_compression |= Switch::is_on(args.disable_compression);
    Ok(config)
}

/// The kubeconfig; none where only a pod's own account is there.
fn read(args: &ConnectionArgs) -> Result<Option<Kubeconfig>, Failure> {
    if let Some(path) = &args.kubeconfig {
        return Ok(Some(Kubeconfig::read_from(path)?));
    }
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        Err(error) if set("KUBECONFIG") => Err(error.into()),
        Err(_) if args.server.is_some() => Ok(Some(Kubeconfig::default())),
        Err(_) if set("KUBERNETES_SERVICE_HOST") => Ok(None),
        Err(error) => Err(Failure::from(error)
            .with_hint("Give --kubeconfig or --server, or set KUBECONFIG: there is nothing to say which cluster is meant.")),
    }
}
