//! `create`: creates subnamespaces by creating their anchors.

use std::path::{Path, PathBuf};

use clap::Args;
use hns_api::{KeyValue, SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states};
use kube::api::PostParams;
use serde_json::Value;

use super::relocation;
use crate::failure::Done;
use crate::session::Session;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal};

/// Create a subnamespace of the namespace given with -n.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the new namespace.
    #[arg(value_name = "CHILD", required_unless_present = "filename")]
    name: Option<String>,

    /// Create the subnamespaces of the `SubnamespaceAnchors` in this file, in YAML or JSON; - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "labels", "annotations"])]
    filename: Option<PathBuf>,

    #[command(flatten)]
    metadata: Metadata,

    #[command(flatten)]
    wait: WaitArgs,
}

/// The new namespace, for `plan create`.
#[derive(Debug, Args)]
pub(crate) struct Child {
    /// The name of the new namespace.
    #[arg(value_name = "CHILD")]
    pub(super) name: String,

    #[command(flatten)]
    pub(super) metadata: Metadata,
}

/// Labels and annotations of the new namespace.
#[derive(Debug, Args)]
pub(crate) struct Metadata {
    /// A label of the new namespace; can be repeated. The settings of the installation must name its key as managed.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub(super) labels: Vec<KeyValue>,

    /// An annotation of the new namespace; can be repeated. The settings must name its key as managed.
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = pair)]
    pub(super) annotations: Vec<KeyValue>,
}

fn pair(text: &str) -> Result<KeyValue, String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("must be KEY=VALUE")?;
    Ok(KeyValue { key: key.into(), value: value.into() })
}

impl Metadata {
    fn spec(&self) -> SubnamespaceAnchorSpec {
        let given = |pairs: &[KeyValue]| (!pairs.is_empty()).then(|| pairs.to_vec());
        SubnamespaceAnchorSpec { labels: given(&self.labels), annotations: given(&self.annotations) }
    }
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let anchors = match (&arguments.filename, &arguments.name) {
        (Some(path), _) => anchors(&read(path)?, session)?,
        (None, name) => {
            let mut anchor =
                SubnamespaceAnchor::new(name.as_deref().unwrap_or_default(), arguments.metadata.spec());
            anchor.metadata.namespace = Some(session.parent()?.to_owned());
            vec![anchor]
        }
    };
    for anchor in &anchors {
        create(anchor, &arguments.wait, session, terminal).await?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::new(format!("Error: {} cannot be read: {error}", path.display())))
}

/// The anchors in a file; those without a namespace are in that of the request.
fn anchors(text: &str, session: &Session) -> Result<Vec<SubnamespaceAnchor>, Failure> {
    let invalid = |why: &dyn std::fmt::Display| Failure::new(format!("Error: the file is invalid: {why}"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| invalid(&error))?;
    let mut anchors = Vec::new();
    for document in documents.into_iter().filter(|it| !it.is_null()) {
        if document["kind"] != "SubnamespaceAnchor" {
            return Err(invalid(&format!("{} is no SubnamespaceAnchor", document["kind"])));
        }
        let mut anchor: SubnamespaceAnchor =
            serde_json::from_value(document).map_err(|error| invalid(&error))?;
        if anchor.metadata.name.is_none() {
            return Err(invalid(&"an anchor has no name"));
        }
        if anchor.metadata.namespace.is_none() {
            anchor.metadata.namespace = Some(session.parent()?.to_owned());
        }
        anchors.push(anchor);
    }
    Ok(anchors)
}

async fn create(
    anchor: &SubnamespaceAnchor,
    wait: &WaitArgs,
    session: &Session,
    terminal: &Terminal,
) -> Done {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let (child, parent) = (&*text(&anchor.metadata.name), &*text(&anchor.metadata.namespace));
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    session
        .call(anchors.create(&PostParams::default(), anchor))
        .await
        .map_err(|problem| Failure::could_not("create subnamespace anchor", &problem))?;
    terminal.line(&format!("Successfully created {child:?} subnamespace anchor in {parent:?} namespace"));
    if !wait.is_wanted(false) {
        return Ok(());
    }
    let (what, deadline) = (format!("namespace {child}"), wait.deadline());
    until(terminal, &what, deadline, async || {
        let seen = session.call(anchors.get(child)).await;
        let seen = seen.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
        state(child, seen.state())
    })
    .await?;
    let notes = relocation::wait_for_arrival(session, terminal, (child, Some(parent)), deadline).await?;
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

/// The progress of a new subnamespace, from the state of its anchor.
fn state(child: &str, state: Option<&str>) -> Result<Progress, Failure> {
    match state {
        Some(anchor_states::OK) => Ok(Progress::Done),
        None | Some(anchor_states::MISSING) => Ok(Progress::missing("the controller has not created it yet")),
        Some(other) => Err(Failure::new(format!("Error: the anchor of {child} is in state {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_the_anchor_is_ok_or_fails() {
        assert_eq!(state("c", Some("Ok")), Ok(Progress::Done));
        assert!(matches!(state("c", None), Ok(Progress::Part(..))));
        assert!(matches!(state("c", Some("Missing")), Ok(Progress::Part(..))));
        assert!(state("c", Some("Conflict")).unwrap_err().text.contains("Conflict"));
    }

    #[test]
    fn labels_and_annotations_are_pairs() {
        assert_eq!(pair("a.b/c=d=e").unwrap(), KeyValue { key: "a.b/c".into(), value: "d=e".into() });
        assert_eq!(pair("a=").unwrap().value, "");
        for wrong in ["a", "=b", ""] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
