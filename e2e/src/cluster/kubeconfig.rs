//! Kubeconfig files, and client configurations from them. Never reads the user's own kubeconfig or environment.

use std::fs;
use std::path::Path;

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// Writes a kubeconfig (JSON, which is YAML too) with one cluster and one user.
///
/// `ca` is none for a plain-HTTP server.
pub(crate) fn write(path: &Path, server: &str, ca: Option<&Path>, user: &Value) -> anyhow::Result<()> {
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority"] = json!(ca);
    }
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "hns", "cluster": cluster }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "hns", "context": { "cluster": "hns", "user": "user" } }],
        "current-context": "hns",
    });
    fs::write(path, format!("{content:#}\n")).with_context(|| format!("writing {}", path.display()))
}

/// A user with the certificate `NAME.crt` and key `NAME.key` in `directory`.
pub(crate) fn certificate_user(directory: &Path, name: &str) -> Value {
    json!({
        "client-certificate": directory.join(format!("{name}.crt")),
        "client-key": directory.join(format!("{name}.key")),
    })
}

/// Reads a kubeconfig as a client configuration.
pub(crate) async fn read(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // Everything is on loopback, so a proxy of the environment is not used.
    config.proxy_url = None;
    // A test needs to see a 503, not a retry.
    config.default_retry = false;
    Ok(config)
}
