//! The manifest for Krew fits the plugin. The test fills in what the release fills in.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

const MANIFEST: &str = include_str!("../../../config/krew/hns.yaml");

/// The binary that cargo builds.
const BINARY: &str = env!("CARGO_BIN_EXE_kubectl-hns");

/// The manifest as Krew's release bot fills it in.
fn filled() -> Value {
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    let lines = MANIFEST.replace("{{ .TagName }}", tag);
    let lines = lines.lines().map(|line| match line.trim().strip_prefix("{{addURIAndSha \"") {
        None => line.to_owned(),
        Some(rest) => {
            let (uri, rest) = rest.split_once('"').expect("a quoted address");
            assert_eq!(rest, " .TagName | indent 4}}", "{line}");
            format!("    uri: {uri}\n    sha256: {}", "0".repeat(64))
        }
    });
    serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n")).expect("a manifest in YAML")
}

#[test]
fn the_manifest_fits_the_binary() {
    let manifest = filled();
    let binary = Path::new(BINARY).file_stem().unwrap().to_str().unwrap();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(format!("kubectl-{}", manifest["metadata"]["name"].as_str().unwrap()), binary);
    let version = manifest["spec"]["version"].as_str().unwrap();
    let said = std::process::Command::new(BINARY).arg("version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said, format!("{binary} version {}\n", version.strip_prefix('v').unwrap()));
    // Krew's own limit.
    assert!(manifest["spec"]["shortDescription"].as_str().unwrap().len() <= 50);

    let mut systems = BTreeSet::new();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let labels = &platform["selector"]["matchLabels"];
        let [os, arch] = ["os", "arch"].map(|key| labels[key].as_str().unwrap().to_owned());
        let windows = os == "windows";
        assert_eq!(platform["bin"], format!("{binary}{}", if windows { ".exe" } else { "" }));
        let archive = format!("/{version}/{binary}_{os}_{arch}.{}", if windows { "zip" } else { "tar.gz" });
        let uri = platform["uri"].as_str().unwrap();
        assert!(uri.starts_with("https://") && uri.ends_with(&archive), "{uri}");
        assert!(systems.insert((os, arch)), "twice: {labels}");
    }
    assert!(systems.contains(&("linux".to_owned(), "amd64".to_owned())), "{systems:?}");
}
