//! The plain manifests: what Helm makes of the chart, for those who do not use Helm. It adds nothing to them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use hns_e2e::Programs;
use hns_e2e::product::CHART_IMAGES;

use super::{Generated, HEADER};

/// A file of manifests: its name and comment, and the chart's values.
const FILES: [(&str, &str, &[&str]); 5] = [
    (
        "default.yaml",
        "# Everything, for `kubectl apply -f`. As with HNC, objects of any kind can be propagated.\n",
        &["namespace.create=true", "crds.keep=false", "propagation.resources={*}"],
    ),
    (
        "ha.yaml",
        "# As default.yaml, with more replicas, which are spread over zones.\n",
        &[
            "namespace.create=true",
            "crds.keep=false",
            "propagation.resources={*}",
            "webhook.replicas=3",
            "controller.replicas=3",
        ],
    ),
    (
        "hrq.yaml",
        "# As default.yaml, with hierarchical quotas.\n",
        &["namespace.create=true", "crds.keep=false", "propagation.resources={*}", "hrq.enabled=true"],
    ),
    (
        "accurate.yaml",
        "# As default.yaml, with Accurate's API.\n",
        &["namespace.create=true", "crds.keep=false", "propagation.resources={*}", "accurate.enabled=true"],
    ),
    ("crds.yaml", "# The definitions alone.\n", &["crds.keep=false"]),
];

const OVER_ZONES: &str = r#"[
    {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
]"#;

/// All of them, from the chart as it is in the checkout at `root`. Builds Helm if it is missing, which takes minutes once.
pub(super) fn files(root: &Path) -> anyhow::Result<Vec<Generated>> {
    let helm = Programs::helm()?;
    FILES.into_iter().map(|(name, comment, values)| render(&helm, root, name, comment, values)).collect()
}

fn render(helm: &Path, root: &Path, name: &str, comment: &str, values: &[&str]) -> anyhow::Result<Generated> {
    let mut command = Command::new(helm);
    // Helm's hooks would not run with these manifests.
    command
        .args(["template", "hns", "charts/hns", "--namespace", "hnc-system", "--no-hooks"])
        .args(CHART_IMAGES)
        .current_dir(root);
    for value in values {
        command.args(["--set", value]);
    }
    match name {
        "crds.yaml" => _ = command.args(["--show-only", "templates/crds.yaml"]),
        "ha.yaml" => {
            for component in ["webhook", "controller"] {
                command.args(["--set-json", &format!("{component}.topologySpreadConstraints={OVER_ZONES}")]);
            }
        }
        _ => {}
    }
    let output = command.output().context("running helm")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm template for config/{name}: {errors}");
    let text = String::from_utf8(output.stdout)?;
    let contents = format!("{HEADER}{comment}{}", tidy(&text));
    Ok(Generated { path: format!("config/{name}").into(), contents })
}

/// Without what only Helm needs: who made the object, and where in the chart it comes from.
fn tidy(text: &str) -> String {
    let of_helm = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("# Source: ")
            || line.starts_with("helm.sh/")
            || line.starts_with("app.kubernetes.io/managed-by: ")
    };
    let lines: Vec<&str> = text.lines().filter(|line| !of_helm(line)).map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}
