//! The connection flags of kubectl, and the client configuration that they give.

mod kubeconfig;
mod proxy;

use std::path::PathBuf;

use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::Failure;
use crate::flags::Limit;
use crate::installation::VARIABLE;

/// The heading of flags that all commands have.
pub(crate) const CONNECTION: &str = "Connection";

/// The identifier of `-n`.
pub(crate) const NAMESPACE: &str = "namespace-of-request";

/// The flags for the cluster, the user and the namespace.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = CONNECTION)]
pub(crate) struct ConnectionArgs {
    /// User to impersonate: a regular user or a service account.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Group to impersonate; can be repeated.
    #[arg(long, global = true, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,

    /// UID to impersonate.
    #[arg(long, global = true, value_name = "UID")]
    pub(crate) as_uid: Option<String>,

    /// Accepted for compatibility with kubectl; nothing is cached.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Path to the certificate of the certificate authority.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) certificate_authority: Option<String>,

    /// Path to a client certificate for TLS.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_certificate: Option<String>,

    /// Path to the key of the client certificate.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_key: Option<String>,

    /// Cluster of the kubeconfig to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Context of the kubeconfig to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Disable compression of responses.
    #[arg(long, global = true)]
    pub(crate) disable_compression: bool,

    /// Namespace of the hns installation. The default is the variable `HNS_INSTALLATION`, or else the namespace in hns'
    /// webhook registration.
    #[arg(long, global = true, value_name = "NAMESPACE", env = VARIABLE, hide_env = true,
          value_parser = namespace_or_empty)]
    pub(crate) installation: Option<String>,

    /// Do not verify the API server's certificate. This makes the connection insecure.
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: Option<bool>,

    /// Path to the kubeconfig file. The default is `KUBECONFIG`, or else ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Namespace of the request. The default is that of the kubeconfig's context, or else "default".
    // Its identifier differs from those of the arguments of commands, which would hide it.
    #[arg(id = NAMESPACE, short = 'n', long = "namespace", global = true, value_name = "NAMESPACE",
          value_parser = namespace_or_empty)]
    namespace: Option<String>,

    /// Timeout of a single request: seconds, or a duration such as 1m30s; 0 for no limit. The default is 10s, and 30s
    /// for a page of a list.
    #[arg(long, global = true, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) request_timeout: Option<Limit>,

    /// Address and port of the API server.
    #[arg(short = 's', long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Server name for the verification of the API server's certificate.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,

    /// Bearer token for authentication.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// User of the kubeconfig to use.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

impl ConnectionArgs {
    /// The namespace of `-n`. As in kubectl, an empty one is none.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|it| !it.is_empty())
    }
}

/// The name of a namespace, or the empty one, which counts as none.
fn namespace_or_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { crate::flags::namespace(text) }
}

/// The client configuration from the flags, the kubeconfig and the environment.
///
/// # Errors
/// A file cannot be read or is invalid, or a name in it does not exist.
pub(crate) async fn configuration(args: &ConnectionArgs) -> Result<Config, Failure> {
    let read = read(args)?;
    are_readable(args)?;
    let mut config = match read {
        None => Config::incluster().map_err(|error| Failure::new(format!("Error: {error}")))?,
        Some(kubeconfig) => {
            let chosen = kubeconfig::chosen(&kubeconfig, args)?;
            let asked = chosen.clusters[0].cluster.as_ref().and_then(|it| it.proxy_url.clone());
            let mut config = Config::from_custom_kubeconfig(chosen, &KubeConfigOptions::default()).await?;
            // The library also reads the environment, but applies exceptions to the proxy's host instead of the
            // server's.
            config.proxy_url =
                proxy::choose(asked.as_deref(), &config.cluster_url, &proxy::Environment::of_process())?;
            config
        }
    };
    kubeconfig::impersonate(&mut config.auth_info, args)?;
    // A command reports an error at once. Commands that wait repeat their requests themselves.
    config.default_retry = false;
    config.disable_compression |= args.disable_compression;
    Ok(config)
}

/// Fails if a file that a flag names cannot be read. The library would not say which one it is.
fn are_readable(args: &ConnectionArgs) -> Result<(), Failure> {
    for (flag, file) in [
        ("--certificate-authority", &args.certificate_authority),
        ("--client-certificate", &args.client_certificate),
        ("--client-key", &args.client_key),
    ] {
        if let Some(file) = file {
            let read = std::fs::read(file);
            read.map_err(|error| Failure::new(format!("Error: {flag}: {file} cannot be read: {error}")))?;
        }
    }
    Ok(())
}

/// The kubeconfig; `None` if there is only a pod's service account.
pub(crate) fn read(args: &ConnectionArgs) -> Result<Option<Kubeconfig>, Failure> {
    if let Some(path) = &args.kubeconfig {
        let read = Kubeconfig::read_from(path);
        return read.map(Some).map_err(|error| in_files(error, &path.display().to_string()));
    }
    let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let files: Vec<PathBuf> = std::env::split_paths(&files).filter(|it| !it.as_os_str().is_empty()).collect();
    if !files.is_empty() {
        return merged(&files).map(Some);
    }
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|value| !value.is_empty());
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        Err(error @ KubeconfigError::Parse(_)) => Err(in_files(error, "~/.kube/config")),
        Err(_) if args.server.is_some() => Ok(Some(Kubeconfig::default())),
        Err(_) if is_in_pod => Ok(None),
        Err(error) => Err(Failure::from(error)
            .with_hint("No cluster is configured. Set --kubeconfig, --server or KUBECONFIG.")),
    }
}

/// The kubeconfig of these files. As in kubectl, files that do not exist are ignored; but one must exist.
fn merged(files: &[PathBuf]) -> Result<Kubeconfig, Failure> {
    let (mut merged, mut missing) = (None, KubeconfigError::FindPath);
    for path in files {
        match Kubeconfig::read_from(path) {
            Ok(next) => merged = Some(merged.take().unwrap_or_else(Kubeconfig::default).merge(next)?),
            Err(error @ KubeconfigError::ReadConfig(..)) if !path.exists() => missing = error,
            Err(error) => return Err(in_files(error, &path.display().to_string())),
        }
    }
    merged.ok_or_else(|| missing.into())
}

/// The failure to read these files; other errors than that of the syntax name the file themselves.
fn in_files(error: KubeconfigError, files: &str) -> Failure {
    match error {
        KubeconfigError::Parse(why) => {
            Failure::new(format!("Error: the kubeconfig {files} is invalid: {}", place(&why.to_string())))
                .with_hint("Correct it, or name another file with --kubeconfig or KUBECONFIG.")
        }
        other => other.into(),
    }
}

/// Where a file is wrong, from the parser's text. The text also shows lines of the file, which has credentials.
fn place(text: &str) -> String {
    let mut words = text.split_whitespace().skip_while(|word| *word != "line");
    let mut number = |name: &str| {
        let digits = words.find(|word| *word == name).and_then(|_| words.next())?;
        Some(digits.trim_end_matches(|it: char| !it.is_ascii_digit()).to_owned())
    };
    match (number("line"), number("column")) {
        (Some(line), Some(column)) => format!("line {line}, column {column} is not as in a kubeconfig"),
        _ => "it is not YAML as in a kubeconfig".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_exist_are_ignored_if_one_exists() {
        let file = std::env::temp_dir().join(format!("hns-kubeconfig-{}", std::process::id()));
        std::fs::write(&file, "current-context: here").unwrap();
        let missing = || PathBuf::from("/nope");
        let found = merged(&[missing(), file.clone(), missing()]).unwrap();
        assert_eq!(found.current_context.as_deref(), Some("here"));
        std::fs::write(&file, "root:x:0:0:secret\n").unwrap();
        let failure = merged(std::slice::from_ref(&file)).unwrap_err();
        assert!(
            failure.text.contains("is invalid: line 1, column 1") && !failure.text.contains("secret"),
            "{failure}"
        );
        std::fs::write(&file, "a: [").unwrap();
        for (files, said) in [
            (vec![missing(), file.clone()], "is invalid: "),
            (vec![missing(), missing()], "the kubeconfig /nope cannot be read: "),
        ] {
            let failure = merged(&files).unwrap_err();
            assert!(failure.text.contains(said), "{failure}");
        }
        std::fs::remove_file(file).unwrap();
    }
}
