//! The suites: their builds, their order, and how each one is started.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hns_e2e::process::{PROXY_VARIABLES, package_variables};
use hns_e2e::product;
use hns_e2e::programs::Kubernetes;
use serde::Deserialize;

use super::{NODE, UNIT_TESTS};
use crate::cargo::{cargo_says, program, root};

/// All unit and property tests, in one run of cargo.
const UNIT: &str = "unit";

/// The unit tests of the test cluster itself.
const LIBRARY: &str = "e2e";

/// The order by duration, the longest first, so that no long suite runs alone at the end. A suite that is not listed
/// runs before all of them, because its duration is unknown.
const LONGEST_FIRST: [&str; 22] = [
    "structure",
    "quotas",
    "outage",
    "propagation",
    "chaos",
    "authority",
    "plugin",
    "registrations",
    "install",
    "accurate",
    "hostile",
    "crash",
    "failover",
    UNIT,
    "crossing",
    "certificates",
    "accurate_admission",
    "cluster",
    "tenants",
    "hierarchy",
    "metrics",
    LIBRARY,
];

/// These suites have a module `speed` with tests that measure times.
const WITH_SPEED: [&str; 2] = ["propagation", "structure"];

/// The suites that depend most on features of the API server; they also run on the oldest supported version.
const ON_THE_OLDEST: [&str; 6] =
    ["structure", "propagation", "registrations", "install", "authority", "hierarchy"];

/// The suites of HNC's API, which must pass with Accurate's API enabled too.
const WITH_ACCURATE: [&str; 9] =
    ["authority", "chaos", "crash", "failover", "hierarchy", "outage", "propagation", "quotas", "structure"];

/// A suite to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suite {
    /// The name on the command line and in the output.
    pub(crate) name: String,
    /// The executable.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<OsString>,
    /// Additional environment variables.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// Whether the suite runs alone.
    pub(crate) alone: bool,
}

/// The result of a build.
pub(crate) struct Built {
    /// All suites.
    pub(crate) suites: Vec<Suite>,
    /// The directory of their output, next to the build output.
    pub(crate) logs: PathBuf,
}

/// Builds all tests, as `cargo test` does.
pub(crate) fn build() -> anyhow::Result<Built> {
    let package = root().join("e2e").canonicalize().context("the package e2e")?;
    let arguments = ["build", "--workspace", "--all-targets", "--message-format=json-render-diagnostics"];
    let executables = executables(&cargo_says(&arguments)?, &package)?;
    let (_, first) = executables.first().context("cargo has built no suite")?;
    let logs = first.ancestors().nth(2).context("an executable without a place")?.join("suites");
    let mut suites: Vec<Suite> =
        executables.into_iter().map(|(name, path)| Suite::of_package(name, path, &package)).collect();
    suites.extend(speed(&suites));
    suites.push(Suite::of_all_unit_tests());
    Ok(Built { suites, logs })
}

/// The suites of these names, or all without names.
pub(crate) fn choose(suites: Vec<Suite>, names: &[String]) -> anyhow::Result<Vec<Suite>> {
    let known: BTreeSet<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        bail!(
            "there is no suite {unknown:?}; there are {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    let is_chosen = |suite: &Suite| names.is_empty() || names.contains(&suite.name);
    Ok(suites.into_iter().filter(is_chosen).collect())
}

/// The order of the suites.
pub(crate) fn in_order(mut suites: Vec<Suite>) -> Vec<Suite> {
    let place = |name: &str| LONGEST_FIRST.iter().position(|it| *it == name);
    // An unknown name has no position, which sorts first.
    suites.sort_by_cached_key(|suite| (suite.alone, place(&suite.name), suite.name.clone()));
    suites
}

/// The suites for the oldest supported Kubernetes.
pub(crate) fn on_the_oldest(suites: &[Suite]) -> Vec<Suite> {
    let minor = Kubernetes::Oldest.minor();
    again_with(suites, &ON_THE_OLDEST, minor, (Kubernetes::VARIABLE, minor))
}

/// The suites of HNC's API for installations that serve Accurate's too.
pub(crate) fn with_accurate(suites: &[Suite]) -> Vec<Suite> {
    again_with(suites, &WITH_ACCURATE, "accurate", (product::WITH_ACCURATE, "true"))
}

/// The tests that measure times, which run alone. A plain `cargo test` leaves them out, because it runs others beside them.
fn speed(suites: &[Suite]) -> Vec<Suite> {
    let alone = |suite| Suite { args: vec!["::speed::".into(), "--ignored".into()], alone: true, ..suite };
    again(suites, &WITH_SPEED, "speed").map(alone).collect()
}

/// Those of the suites that are `chosen`, with this environment variable.
fn again_with(
    suites: &[Suite],
    chosen: &[&str],
    suffix: &str,
    (variable, value): (&str, &str),
) -> Vec<Suite> {
    let with = |mut suite: Suite| {
        suite.env.push((variable.into(), value.into()));
        suite
    };
    again(suites, chosen, suffix).map(with).collect()
}

/// Those of the suites that are `chosen`, with this at the end of their names.
fn again(suites: &[Suite], chosen: &[&str], suffix: &str) -> impl Iterator<Item = Suite> {
    let again = suites.iter().filter(|suite| chosen.contains(&suite.name.as_str())).cloned();
    again.map(move |suite| Suite { name: format!("{}-{suffix}", suite.name), ..suite })
}

impl Suite {
    fn of_package(name: String, program: PathBuf, package: &Path) -> Self {
        // `cargo xtask` has set these to its own.
        let variables: [(&str, OsString); 3] = [
            ("CARGO_MANIFEST_DIR", package.into()),
            ("CARGO_MANIFEST_PATH", package.join("Cargo.toml").into()),
            ("CARGO_PKG_NAME", "hns-e2e".into()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value));
        Self {
            alone: name == NODE,
            // A plain `cargo test` leaves it out.
            args: if name == NODE { vec!["--ignored".into()] } else { Vec::new() },
            name,
            program,
            env: variables.chain(proxies()).collect(),
            directory: package.to_owned(),
        }
    }

    fn of_all_unit_tests() -> Self {
        let without = package_variables().flat_map(|name| ["-u".into(), name]);
        let cargo = iter::once(program().into_os_string())
            .chain(UNIT_TESTS.into_iter().chain(["--no-fail-fast"]).map(Into::into));
        Self {
            name: UNIT.to_owned(),
            program: "env".into(),
            args: without.chain(cargo).collect(),
            env: proxies().collect(),
            directory: root().to_owned(),
            alone: false,
        }
    }
}

/// A [`Process`](hns_e2e::Process) has no proxies of its environment unless it is given them; a suite may fetch something.
fn proxies() -> impl Iterator<Item = (OsString, OsString)> {
    PROXY_VARIABLES.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
}

/// A message of cargo about a built target.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The name and the test executable of each suite in the package at `package`, from cargo's messages.
fn executables(messages: &str, package: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("reading what cargo has built")?;
        let Message { manifest_path, target: Some(target), profile: Some(profile), executable: Some(path) } =
            message
        else {
            continue;
        };
        if !profile.test || manifest_path.parent() != Some(package) {
            continue;
        }
        match target.kind.first().map(String::as_str) {
            Some("test") => found.push((target.name, path)),
            Some("lib") => found.push((LIBRARY.to_owned(), path)),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn suite(name: &str) -> Suite {
        Suite::of_package(name.to_owned(), PathBuf::from("/built/debug/deps/it"), Path::new("/checkout/e2e"))
    }

    fn names(suites: &[Suite]) -> Vec<&str> {
        suites.iter().map(|suite| suite.name.as_str()).collect()
    }

    #[test]
    fn the_lists_name_existing_suites() {
        let is_there = |name: &str| root().join(format!("e2e/tests/{name}.rs")).is_file();
        for name in LONGEST_FIRST
            .into_iter()
            .chain([NODE])
            .chain(ON_THE_OLDEST)
            .chain(WITH_ACCURATE)
            .chain(WITH_SPEED)
        {
            assert!(is_there(name) || [UNIT, LIBRARY].contains(&name), "there is no suite {name}");
        }
        for entry in fs::read_dir(root().join("e2e/tests")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let is_known = LONGEST_FIRST.contains(&name.as_str()) || name == NODE;
            assert!(is_known || !path.is_file(), "the order lacks {name}");
        }
    }

    #[test]
    fn the_longest_suite_is_first_and_one_that_runs_alone_is_last() {
        let suites = ["metrics", NODE, "structure", "made-up", UNIT].map(suite);
        assert_eq!(names(&in_order(suites.to_vec())), ["made-up", "structure", UNIT, "metrics", NODE]);
    }

    #[test]
    fn times_are_measured_while_nothing_else_runs() {
        let speed = speed(&["metrics", "propagation", "structure"].map(suite));
        assert_eq!(names(&speed), ["propagation-speed", "structure-speed"]);
        assert!(speed.iter().all(|suite| suite.alone && suite.args == ["::speed::", "--ignored"]));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list_of_names() {
        let suites = || ["hierarchy", "structure"].map(suite).to_vec();
        assert_eq!(names(&choose(suites(), &["structure".to_owned()]).unwrap()), ["structure"]);
        assert_eq!(choose(suites(), &[]).unwrap(), suites());
        let error = choose(suites(), &["structur".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("hierarchy, structure"), "{error}");
    }

    #[test]
    fn suites_for_the_oldest_version_are_told_its_version() {
        let again = on_the_oldest(&["chaos", "structure"].map(suite));
        assert_eq!(names(&again), ["structure-1.30"]);
        assert!(again[0].env.contains(&("HNS_KUBERNETES".into(), "1.30".into())));
    }

    #[test]
    fn suites_are_the_test_executables_of_their_package() {
        let artifact = |package: &str, kind: &str, name: &str, test: bool| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": format!("/checkout/{package}/Cargo.toml"),
                "target": { "kind": [kind], "name": name },
                "profile": { "test": test },
                "executable": format!("/built/debug/deps/{name}"),
            })
        };
        let library = json!({ "reason": "compiler-artifact", "executable": null });
        let messages = [
            artifact("crates/forest", "test", "properties", true),
            artifact("e2e", "bin", "hns-cluster", false),
            artifact("e2e", "bin", "hns-cluster", true),
            artifact("e2e", "test", "structure", true),
            artifact("e2e", "lib", "hns_e2e", true),
            library,
            json!({ "reason": "build-finished", "success": true }),
        ];
        let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let found = executables(&messages.join("\n"), Path::new("/checkout/e2e")).unwrap();
        let path = |name: &str| PathBuf::from("/built/debug/deps").join(name);
        assert_eq!(
            found,
            [("structure".to_owned(), path("structure")), (LIBRARY.to_owned(), path("hns_e2e"))]
        );
        assert!(executables("no json", Path::new("/checkout/e2e")).is_err());
    }
}
