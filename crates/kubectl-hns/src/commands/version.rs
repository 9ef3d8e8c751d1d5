//! `version`: prints the versions of the plugin, the controller and the API server.

use clap::Args;
use hns_cluster::settings::{Data, VERSION};
use serde::Serialize;

use crate::failure::{Done, Problem};
use crate::format::{DataFormat, render};
use crate::lines::Lines;
use crate::session::Session;
use crate::{Failure, Terminal, published};

/// Print the versions of this plugin, the controller and the API server.
///
/// Versions that cannot be read are noted on standard error. The exit code is 0 also if no cluster can be reached, as with
/// HNC's plugin.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print only the version of this plugin, without a request to the cluster.
    #[arg(long)]
    client: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DataFormat>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    name: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes_version: Option<String>,
}

impl Versions {
    fn of_plugin() -> Self {
        let (name, version) = ("kubectl-hns", env!("CARGO_PKG_VERSION"));
        Self { name, version, controller_version: None, kubernetes_version: None }
    }

    /// The text, of which the first line is in the format of HNC's plugin.
    fn text(&self) -> String {
        let mut text = text();
        for (whose, version) in
            [("Controller", &self.controller_version), ("Kubernetes", &self.kubernetes_version)]
        {
            if let Some(version) = version {
                text.line(format!("{whose} version: {version}"));
            }
        }
        text
    }

    /// A warning if the controller is of another minor version than the plugin.
    fn skew(&self) -> Option<String> {
        fn minor(version: &str) -> Vec<&str> {
            version.split('.').take(2).collect()
        }
        let controller = self.controller_version.as_ref()?;
        (minor(controller) != minor(self.version)).then(|| {
            let version = self.version;
            format!(
                "this plugin is version {version}, the controller is {controller}: use a plugin of the same minor version"
            )
        })
    }

    /// Adds the versions in the cluster, as far as they can be read.
    async fn add(&mut self, session: &Session, notes: &mut Vec<String>) {
        let (kubernetes, controller) =
            futures::join!(session.call(session.client.apiserver_version()), published::read(session));
        notes.extend(unread(kubernetes.as_ref().err(), controller.as_ref().err()));
        self.kubernetes_version = kubernetes.ok().map(|it| it.git_version);
        match controller {
            Ok(Some(data)) => match written_by(&data) {
                Ok(version) => self.controller_version = Some(version),
                Err(note) => notes.push(note.to_owned()),
            },
            Ok(None) => notes.push(format!("hns does not run in namespace {}", session.installation().await)),
            Err(_) => {}
        }
    }
}

/// Which versions cannot be read: one note if both have the same reason.
fn unread(kubernetes: Option<&Problem>, controller: Option<&Problem>) -> Vec<String> {
    let note = |what: &str, problem: &Problem| format!("the {what} cannot be read: {problem}");
    match (kubernetes, controller) {
        (Some(one), Some(other)) if one == other => {
            vec![note("versions of the controller and of Kubernetes", one)]
        }
        _ => [("version of the controller", controller), ("version of Kubernetes", kubernetes)]
            .into_iter()
            .filter_map(|(what, problem)| Some(note(what, problem?)))
            .collect(),
    }
}

/// The version of the controller that wrote these settings, or why there is none.
fn written_by(data: &Data) -> Result<String, &'static str> {
    data.get(VERSION)
        .cloned()
        .ok_or("no controller has led yet, so its version is unknown; `kubectl hns doctor` says why")
}

/// The version of the plugin, in the format of HNC's plugin.
pub(crate) fn text() -> String {
    format!("kubectl-hns version {}\n", env!("CARGO_PKG_VERSION"))
}

/// Prints what can be read: the version of the plugin needs no cluster.
pub(crate) async fn run(
    arguments: &Arguments,
    session: Result<Session, Failure>,
    terminal: &Terminal,
) -> Done {
    let (mut versions, mut notes) = (Versions::of_plugin(), Vec::new());
    if !arguments.client {
        match session {
            Ok(session) => versions.add(&session, &mut notes).await,
            Err(failure) => {
                notes.push(format!("the versions in the cluster cannot be read: {}", failure.clause()));
            }
        }
    }
    notes.extend(versions.skew());
    match arguments.output {
        None => terminal.print(&versions.text()),
        Some(format) => terminal.print(&render(format.into(), &versions, [])?),
    }
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::tests::data;

    #[test]
    fn only_another_minor_version_is_a_skew() {
        let versions = |controller: &str| Versions {
            version: "1.4.2",
            controller_version: Some(controller.into()),
            ..Versions::of_plugin()
        };
        for (controller, differs) in [("1.4.2", false), ("1.4.9", false), ("1.5.0", true), ("2.4.2", true)] {
            assert_eq!(versions(controller).skew().is_some(), differs, "{controller}");
        }
        assert!(Versions::of_plugin().skew().is_none());
        assert_eq!(written_by(&data("version: v1")).as_deref(), Ok("9.9.9"));
        assert!(written_by(&Data::new()).unwrap_err().starts_with("no controller has led yet"));
        assert!(versions("1.4.2").text().ends_with("\nController version: 1.4.2\n"));
    }
    #[test]
    fn each_version_that_cannot_be_read_is_noted() {
        let [no, other] = ["no", "other"].map(|it| Problem::Unreachable(it.into()));
        for (kubernetes, controller, wanted) in [
            (
                Some(&no),
                Some(&no),
                &["the versions of the controller and of Kubernetes cannot be read: no"][..],
            ),
            (
                Some(&no),
                Some(&other),
                &[
                    "the version of the controller cannot be read: other",
                    "the version of Kubernetes cannot be read: no",
                ],
            ),
            (None, Some(&no), &["the version of the controller cannot be read: no"]),
            (Some(&no), None, &["the version of Kubernetes cannot be read: no"]),
            (None, None, &[]),
        ] {
            assert_eq!(unread(kubernetes, controller), wanted);
        }
    }
}
