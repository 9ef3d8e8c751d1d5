//! A few verdicts of each kind, as users get them on a real node. The suites on the control plane have the rest.

use anyhow::{Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Output, eventually};

use super::load;
use super::world::World;

const TEAM: [(&str, &str); 3] = [("acme", ""), ("acme-prod", "acme"), (load::NAMESPACE, "")];

/// What is typed, what it reads, and the words of the refusal if there is one.
const TABLE: [(&[&str], &str, Option<&str>); 7] = [
    (&["apply", "-f", "-"], ANCHOR, None),
    (&["annotate", "namespace", "acme-prod", "note=1"], "", None),
    (
        &["label", "namespace", "acme-prod", "acme.tree.hnc.x-k8s.io/depth=7", "--overwrite"],
        "",
        Some("hnc.x-k8s.io"),
    ),
    (&["delete", "namespace", "acme-dev"], "", Some("acme-dev")),
    (&["apply", "-f", "-"], CYCLE, Some("denied")),
    (&["delete", "rolebinding", "viewers", "--namespace=acme-prod"], "", Some("viewers")),
    (&["annotate", "rolebinding", "viewers", "--namespace=acme", "note=1"], "", None),
];

const ANCHOR: &str = "
apiVersion: hnc.x-k8s.io/v1alpha2
kind: SubnamespaceAnchor
metadata: { name: acme-dev, namespace: acme }
";

const CYCLE: &str = "
apiVersion: hnc.x-k8s.io/v1alpha2
kind: HierarchyConfiguration
metadata: { name: hierarchy, namespace: acme }
spec: { parent: acme-prod }
";

pub(crate) async fn table(world: &World<'_>) -> Result<String> {
    let steps = world.steps();
    steps.plant(&TEAM).await?;
    steps.create_binding("acme", "viewers", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&["acme-prod"], "viewers", "acme", "alice").await?;
    for (args, input, refused) in TABLE {
        let output = world.kubectl(args.iter().copied()).stdin(input).run().await?;
        ensure!(
            as_expected(&output, refused),
            "kubectl {}: expected {refused:?}, not {output}",
            args.join(" ")
        );
        if args[0] == "apply" && refused.is_none() {
            eventually("acme-dev is there", PATIENCE, async || {
                let found =
                    steps.namespaces().get_opt("acme-dev").await.map_err(|error| error.to_string())?;
                found.map(drop).ok_or_else(|| "no".to_owned())
            })
            .await?;
        }
    }
    steps.binding_arrives(&["acme-prod", "acme-dev"], "viewers", "acme", "alice").await?;
    let refused = TABLE.iter().filter(|(_, _, refused)| refused.is_some()).count();
    Ok(format!("{} allowed and {refused} refused, as they should be", TABLE.len() - refused))
}

fn as_expected(output: &Output, refused: Option<&str>) -> bool {
    match refused {
        None => output.success(),
        Some(words) => {
            let verdict = output.stderr.contains("denied") || output.stderr.contains("forbidden");
            !output.success()
                && verdict
                && output.stderr.contains(words)
                && !output.stderr.contains("failed calling")
        }
    }
}
