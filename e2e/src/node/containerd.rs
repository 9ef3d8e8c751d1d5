//! The configuration of containerd and of the pods' network. Starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::images::PAUSE;
use super::{PODS, requirements, write};

/// The socket of containerd; /run is the sandbox's own.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// Writes the configuration files and returns containerd's.
pub(super) fn write_all(directory: &Path) -> anyhow::Result<PathBuf> {
    let network = directory.join("cni");
    fs::create_dir(&network)?;
    // Every packet between pods goes through the node, so that kube-proxy's rules see it.
    let conflist = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": PODS }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
                "dataDir": "/run/cni",
            },
        }],
    });
    write(&network, "10-pods.conflist", format!("{conflist:#}\n"))?;
    write(directory, "containerd.toml", configuration(directory, &network)?)
}

fn configuration(directory: &Path, network: &Path) -> anyhow::Result<String> {
    let root = directory.join("containerd");
    let plugins = requirements::cni_plugins()?;
    let (root, network, plugins) = (root.display(), network.display(), plugins.display());
    Ok(format!(
        r#"version = 3
root = "{root}"
state = "/run/containerd"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{root}/opt"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
# Copies instead of overlays: the images are small, and this works on every file system.
snapshotter = "native"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
# Where the right to lower scores is missing, runc fails with "can't get final child's PID".
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{network}"
"#
    ))
}
