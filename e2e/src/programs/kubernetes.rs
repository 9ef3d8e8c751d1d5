//! The Kubernetes version of a test run: the newest or the oldest supported one, each pinned by a Go module of its own.

use std::env;

use anyhow::Context;

use super::required_version;

/// A supported Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubernetes {
    /// The newest version, on which every test runs.
    Newest,
    /// The oldest version that the chart's `kubeVersion` admits.
    Oldest,
}

impl Kubernetes {
    /// The variable with the version of a test run, as [`Kubernetes::minor`]; by default the newest.
    pub const VARIABLE: &str = "HNS_KUBERNETES";

    const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    /// The version in [`Kubernetes::VARIABLE`].
    ///
    /// # Errors
    /// The version is not supported; the message names those that are.
    pub fn wanted() -> anyhow::Result<Self> {
        match env::var(Self::VARIABLE) {
            Ok(minor) if !minor.is_empty() => Self::of_minor(&minor),
            _ => Ok(Self::Newest),
        }
    }

    /// Its version without the patch, as `1.30`.
    pub fn minor(self) -> &'static str {
        match self {
            Self::Newest => "1.36",
            Self::Oldest => "1.30",
        }
    }

    /// [`Kubernetes::minor`] as two numbers.
    pub(super) fn number(self) -> (u32, u32) {
        match self {
            Self::Newest => (1, 36),
            Self::Oldest => (1, 30),
        }
    }

    /// Whether its API server applies `MutatingAdmissionPolicy` in version v1.
    pub fn has_mutating_policies(self) -> bool {
        self == Self::Newest
    }

    /// Its version, as `v1.30.14`.
    pub(super) fn version(self) -> anyhow::Result<&'static str> {
        let go_mod = match self {
            Self::Newest => include_str!("../../binaries/kubernetes/go.mod"),
            Self::Oldest => include_str!("../../binaries/kubernetes-1.30/go.mod"),
        };
        required_version(go_mod, "k8s.io/kubernetes")
    }

    /// The directory of its Go module.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::Newest => "kubernetes",
            Self::Oldest => "kubernetes-1.30",
        }
    }

    fn of_minor(minor: &str) -> anyhow::Result<Self> {
        Self::ALL.into_iter().find(|it| it.minor() == minor).with_context(|| {
            let known = Self::ALL.map(Self::minor).join(" and ");
            format!("{} is {minor:?}, and the tests know {known}", Self::VARIABLE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_of_the_version_that_it_says() {
        for kubernetes in Kubernetes::ALL {
            let version = kubernetes.version().unwrap();
            assert!(version.starts_with(&format!("v{}.", kubernetes.minor())), "{version}");
            let (major, minor) = kubernetes.number();
            assert_eq!(kubernetes.minor(), format!("{major}.{minor}"));
            assert_eq!(Kubernetes::of_minor(kubernetes.minor()).unwrap(), kubernetes);
        }
        let error = Kubernetes::of_minor("1.29").unwrap_err().to_string();
        assert!(error.contains("1.36 and 1.30"), "{error}");
    }

    #[test]
    fn the_oldest_is_the_one_that_the_chart_admits() {
        let chart = include_str!("../../../charts/hns/Chart.yaml");
        let admitted = format!("kubeVersion: \">={}.0-0\"", Kubernetes::Oldest.minor());
        assert!(chart.lines().any(|line| line == admitted), "Chart.yaml without {admitted}");
    }
}
