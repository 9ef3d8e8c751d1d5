//! The picture of an organisation of 40 namespaces that the README shows, made by the plugin from a real API server.

use std::collections::BTreeMap;
use std::path::Path;

use super::fixture::{hierarchy, namespace, still};

/// Each namespace with its parent; a star marks subnamespaces.
const ORGANISATION: &str = "
    acme
    acme-platform<acme acme-platform-ci*<acme-platform acme-platform-dns*<acme-platform acme-platform-ingress*<acme-platform
    acme-platform-registry*<acme-platform acme-platform-backup*<acme-platform acme-platform-observability*<acme-platform
    acme-metrics*<acme-platform-observability acme-logs*<acme-platform-observability acme-traces*<acme-platform-observability
    acme-retail<acme acme-shop<acme-retail acme-shop-dev*<acme-shop acme-shop-test*<acme-shop acme-shop-prod*<acme-shop
    acme-catalogue<acme-retail acme-catalogue-dev*<acme-catalogue acme-catalogue-prod*<acme-catalogue
    acme-payments<acme-retail acme-payments-dev*<acme-payments acme-payments-test*<acme-payments
    acme-payments-prod*<acme-payments acme-payments-audit*<acme-payments-prod
    acme-logistics<acme acme-fleet<acme-logistics acme-fleet-dev*<acme-fleet acme-fleet-prod*<acme-fleet
    acme-warehouse<acme-logistics acme-warehouse-north*<acme-warehouse acme-warehouse-south*<acme-warehouse
    acme-warehouse-robots*<acme-warehouse-north
    acme-research<acme acme-models*<acme-research acme-notebooks*<acme-research acme-sandbox*<acme-research
    acme-sandbox-ann*<acme-sandbox acme-sandbox-ben*<acme-sandbox
    acme-security<acme acme-vault*<acme-security";

#[tokio::test]
async fn the_picture_in_the_readme_is_what_the_plugin_draws() {
    let still = still().await;
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut namespaces = Vec::new();
    for word in ORGANISATION.split_whitespace() {
        let (name, parent) = word.split_once('<').unwrap_or((word, ""));
        let (name, sub) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        namespaces.push((name, parent, sub));
        children.entry(parent).or_default().push(name);
    }
    assert_eq!(namespaces.len(), 40);
    let all: Vec<_> = namespaces
        .iter()
        .map(|(name, parent, sub)| namespace(name, if *sub { parent } else { "" }))
        .collect();
    still.apply(&all).await;
    let objects = namespaces.iter().map(|(name, parent, _)| {
        let mut below = children.get(name).cloned().unwrap_or_default();
        below.sort_unstable();
        hierarchy(name, parent, &below, &[])
    });
    still.apply(&objects.collect::<Vec<_>>()).await;
    let picture = still.hns("tree acme -o svg").await;
    assert_eq!((picture.code, &*picture.stderr), (Some(0), ""));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let path = docs.join("tree.svg");
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&picture.stdout) {
        let fresh = docs.join("tree.svg.new");
        std::fs::write(&fresh, &picture.stdout).unwrap();
        panic!("docs/tree.svg is stale; look at docs/tree.svg.new and put it in its place");
    }
}
