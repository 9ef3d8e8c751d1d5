//! Programs of the machine that can be used instead of built ones: those in `$KUBEBUILDER_ASSETS`, as of envtest, and on the path.

use std::env;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::say;

/// The variable that names the directory of envtest's programs.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Major and minor version.
pub(super) type Version = (u32, u32);

/// The first program of this name, and its version, if that is supported. Says on standard error whether it is used.
pub(super) fn find(
    name: &str,
    arguments: &[&str],
    supported: &RangeInclusive<Version>,
) -> Option<(PathBuf, Version)> {
    let assets = env::var_os(ASSETS).map(PathBuf::from);
    let on_path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = assets.into_iter().chain(env::split_paths(&on_path)).collect();
    find_in(&directories, name, arguments, supported)
}

fn find_in(
    directories: &[PathBuf],
    name: &str,
    arguments: &[&str],
    supported: &RangeInclusive<Version>,
) -> Option<(PathBuf, Version)> {
    let path = directories.iter().map(|it| it.join(name)).find(|it| it.is_file())?;
    let shown = |(major, minor): &Version| format!("{major}.{minor}");
    match version(&path, arguments) {
        Some(version) if supported.contains(&version) => {
            say(&format!("using {} (version {})", path.display(), shown(&version)));
            Some((path, version))
        }
        version => {
            let found = version.map_or_else(|| "unknown".to_owned(), |it| shown(&it));
            let (first, last) = (shown(supported.start()), shown(supported.end()));
            say(&format!(
                "not using {}: its version is {found}, and {first} to {last} are supported",
                path.display()
            ));
            None
        }
    }
}

/// The first version in what a program prints.
fn version(program: &Path, arguments: &[&str]) -> Option<Version> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split(|it: char| !it.is_ascii_digit() && it != '.').find_map(|number| {
        let (major, rest) = number.split_once('.')?;
        Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_supported_version_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let directories = [directory.path().join("none"), directory.path().to_owned()];
        let supported = (1, 30)..=(1, 36);
        for (printed, version) in [
            ("Kubernetes v1.33.0", Some((1, 33))),
            ("etcd Version: 1.36.21\nGo Version: go1.25", Some((1, 36))),
            ("Client Version: v1.30.4-dispatcher", Some((1, 30))),
            ("Kubernetes v1.37.0", None),
            ("Kubernetes v1.29.9", None),
            ("none", None),
        ] {
            let path = directory.path().join("program");
            fs::write(&path, format!("#!/bin/sh\necho '{printed}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let found = find_in(&directories, "program", &["--version"], &supported);
            assert_eq!(found, version.map(|version| (path, version)), "{printed}");
            assert_eq!(find_in(&directories, "other", &[], &supported), None);
        }
    }
}
