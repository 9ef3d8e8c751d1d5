//! The configuration files and arguments of the node's Kubernetes programs. Starts nothing.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{ADDRESS, NAME, PODS, containerd, write};

pub(super) fn kubelet(
    directory: &Path,
    kubeconfig: &Path,
    ca: &Path,
    cgroup: &str,
) -> anyhow::Result<Vec<String>> {
    let root = directory.join("kubelet");
    fs::create_dir(&root)?;
    // No program here resolves names.
    let resolv_conf = write(directory, "resolv.conf", "")?;
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": ca },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "enforceNodeAllocatable": [],
        // A full disk of the machine must not evict pods under test.
        "evictionHard": { "imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%" },
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "podLogsDir": directory.join("pods"),
        "resolvConf": resolv_conf,
        "volumePluginDir": directory.join("volume-plugins"),
    });
    let configuration = write(directory, "kubelet.json", format!("{configuration:#}\n"))?;
    Ok(vec![
        format!("--config={}", configuration.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", root.display()),
        format!("--cert-dir={}", root.join("pki").display()),
        format!("--hostname-override={NAME}"),
        format!("--node-ip={ADDRESS}"),
    ])
}

pub(super) fn proxy(directory: &Path, kubeconfig: &Path) -> anyhow::Result<Vec<String>> {
    let configuration = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "clusterCIDR": PODS,
        // This node must not set the machine's connection limits.
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        "hostnameOverride": NAME,
        "iptables": { "localhostNodePorts": false },
        "mode": "iptables",
    });
    let configuration = write(directory, "kube-proxy.json", format!("{configuration:#}\n"))?;
    Ok(vec![format!("--config={}", configuration.display())])
}

pub(super) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        // No test uses this port.
        "--secure-port=0".into(),
    ]
}
