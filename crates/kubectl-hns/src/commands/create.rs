//! `create`: creates subnamespaces by creating their anchors.

use std::path::{Path, PathBuf};

use clap::Args;
use hns_api::{KeyValue, SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states};
use kube::api::PostParams;
use serde_json::Value;

use super::relocation;
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal};

/// Create a subnamespace of the namespace given with -n.
#[derive(Debug, Args)]
#[command(override_usage = "kubectl hns create [OPTIONS] CHILD\n       kubectl hns create [OPTIONS] -f FILE")]
pub(crate) struct Arguments {
    /// The name of the new namespace.
    #[arg(value_name = "CHILD", required_unless_present = "filename", value_parser = crate::flags::namespace)]
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
    #[arg(value_name = "CHILD", value_parser = crate::flags::namespace)]
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
    /// Fails if a key is given twice: which value counts would be a guess.
    pub(super) fn is_unambiguous(&self) -> Result<(), Failure> {
        let given = |pairs: &[KeyValue]| {
            let repeated = |(at, pair): (usize, &KeyValue)| {
                pairs[..at].iter().any(|it| it.key == pair.key).then(|| pair.key.clone())
            };
            pairs.iter().enumerate().find_map(repeated)
        };
        for (flag, pairs) in [("--label", &self.labels), ("--annotation", &self.annotations)] {
            if let Some(key) = given(pairs) {
                return Err(Failure::new(format!(
                    "Error: {flag} is given twice for {key}; nothing was changed"
                )));
            }
        }
        Ok(())
    }

    fn spec(&self) -> SubnamespaceAnchorSpec {
        let given = |pairs: &[KeyValue]| (!pairs.is_empty()).then(|| pairs.to_vec());
        SubnamespaceAnchorSpec { labels: given(&self.labels), annotations: given(&self.annotations) }
    }
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let anchors = match (&arguments.filename, &arguments.name) {
        (Some(path), _) => {
            let named = session.names_namespace.then_some(&*session.namespace);
            let default = session.parent()?;
            anchors(&read(path)?, path, (named, default))?
        }
        (None, name) => {
            arguments.metadata.is_unambiguous()?;
            let mut anchor =
                SubnamespaceAnchor::new(name.as_deref().unwrap_or_default(), arguments.metadata.spec());
            anchor.metadata.namespace = Some(session.parent()?.to_owned());
            vec![anchor]
        }
    };
    // As with kubectl, one that cannot be created does not stop the others.
    let (mut failed, count) = (Vec::new(), anchors.len());
    for anchor in &anchors {
        if let Err(failure) = create(anchor, &arguments.wait, session, terminal).await {
            if count == 1 {
                return Err(failure);
            }
            terminal.fail(&failure);
            failed.push(anchor.metadata.name.as_deref().unwrap_or_default());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("\nError: not created, {} of {count}: {}", failed.len(), failed.join(", "))))
}

fn read(path: &Path) -> Result<String, Failure> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::new(format!("Error: {} cannot be read: {error}", path.display())))
}

/// The anchors in a file; those without a namespace are in the `default` one. As with kubectl, others must be in the namespace that
/// was `named` with -n, if one was.
fn anchors(
    text: &str,
    path: &Path,
    (named, default): (Option<&str>, &str),
) -> Result<Vec<SubnamespaceAnchor>, Failure> {
    let path = path.display();
    let invalid = |why: &dyn std::fmt::Display| Failure::new(format!("Error: {path} is invalid: {why}"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| invalid(&error))?;
    let mut anchors = Vec::new();
    for document in documents.into_iter().filter(|it| !it.is_null()) {
        if document["kind"] != "SubnamespaceAnchor" {
            return Err(invalid(&format!("{} is no SubnamespaceAnchor", document["kind"])));
        }
        let mut anchor: SubnamespaceAnchor =
            serde_json::from_value(document.clone()).map_err(|error| invalid(&error))?;
        let known = serde_json::to_value(&anchor).unwrap_or_default();
        if let Some(field) = unknown(&document, &known) {
            let name = anchor.metadata.name.unwrap_or_default();
            return Err(invalid(&format!("SubnamespaceAnchor {name:?}: unknown field {field}")));
        }
        if anchor.metadata.name.is_none() {
            return Err(invalid(&"an anchor has no name"));
        }
        let namespace = anchor.metadata.namespace.get_or_insert_with(|| default.to_owned());
        if let Some(named) = named.filter(|named| named != namespace) {
            let name = anchor.metadata.name.unwrap_or_default();
            return Err(invalid(&format!(
                "SubnamespaceAnchor {name:?} is in namespace {namespace:?}, and -n names {named:?}; nothing was changed"
            )));
        }
        anchors.push(anchor);
    }
    if anchors.is_empty() {
        return Err(Failure::new(format!("Error: no SubnamespaceAnchor was given: {path} is empty")));
    }
    Ok(anchors)
}

/// The path of a field that is lost in `known`, which has only the fields of the type.
fn unknown(document: &Value, known: &Value) -> Option<String> {
    let join = |step: String, rest: String| {
        let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        format!("{step}{dot}{rest}")
    };
    match (document, known) {
        (Value::Object(fields), _) => {
            fields.iter().filter(|(_, value)| !value.is_null()).find_map(|(key, value)| {
                let rest = known.get(key).map_or_else(|| Some(String::new()), |known| unknown(value, known));
                Some(join(key.clone(), rest?))
            })
        }
        (Value::Array(all), Value::Array(known)) => {
            let mut pairs = all.iter().zip(known).enumerate();
            pairs.find_map(|(at, (one, known))| Some(join(format!("[{at}]"), unknown(one, known)?)))
        }
        _ => None,
    }
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
        .map_err(|problem| could_not(parent, &problem))?;
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
    let place = format!("the subnamespace {child}");
    let notes =
        relocation::wait_for_arrival(session, terminal, (&place, child, Some(parent)), deadline).await?;
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

/// The anchor may exist before its namespace.
fn could_not(parent: &str, problem: &Problem) -> Failure {
    let failure = Failure::could_not("create subnamespace anchor", problem);
    if problem.to_string().ends_with("already exists") {
        let hint = format!(
            "Choose another name. `kubectl hns describe {parent}` shows the subnamespaces of {parent}."
        );
        return failure.with_hint(hint);
    }
    failure
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
    fn an_anchor_that_exists_is_shown_by_its_parent() {
        let hint = |message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(409);
            could_not("p", &Problem::Refused(Box::new(status))).hint
        };
        let exists = "admission webhook \"w\" denied the request: subnamespaceanchors.hnc.x-k8s.io \"x\" already exists";
        assert!(hint(exists).unwrap().contains("`kubectl hns describe p`"));
        assert_eq!(
            hint("namespace \"x\" exists already and is not a subnamespace of \"p\"; choose another name"),
            None
        );
    }

    #[test]
    fn unknown_fields_are_found() {
        let known = serde_json::json!({ "spec": { "labels": [{ "key": "a" }] } });
        for (document, path) in [
            (serde_json::json!({ "spec": { "labels": [{ "key": "a" }] }, "status": null }), None),
            (serde_json::json!({ "spec": { "lables": [] } }), Some("spec.lables")),
            (
                serde_json::json!({ "spec": { "labels": [{ "key": "a", "vlaue": 1 }] } }),
                Some("spec.labels[0].vlaue"),
            ),
            (serde_json::json!({ "sepc": {} }), Some("sepc")),
        ] {
            assert_eq!(unknown(&document, &known).as_deref(), path, "{document}");
        }
    }

    #[test]
    fn files_are_named_and_must_fit_the_namespace() {
        let anchor = "apiVersion: hnc.x-k8s.io/v1alpha2\nkind: SubnamespaceAnchor\nmetadata: { name: x, namespace: a }\n";
        let read = |text: &str, named| anchors(text, Path::new("f.yaml"), (named, "d"));
        assert_eq!(read(anchor, None).unwrap()[0].metadata.namespace.as_deref(), Some("a"));
        assert_eq!(read(anchor, Some("a")).unwrap().len(), 1);
        let other = read(anchor, Some("b")).unwrap_err().text;
        assert!(other.contains("is in namespace \"a\", and -n names \"b\""), "{other}");
        let without = anchor.replace(", namespace: a", "");
        assert_eq!(read(&without, Some("d")).unwrap()[0].metadata.namespace.as_deref(), Some("d"));
        for wrong in ["a: [", "kind: X"] {
            assert!(read(wrong, None).unwrap_err().text.starts_with("Error: f.yaml is invalid: "), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_given_once() {
        let metadata = |labels: &[&str]| Metadata {
            labels: labels.iter().map(|it| pair(it).unwrap()).collect(),
            annotations: Vec::new(),
        };
        assert_eq!(metadata(&["k=a", "l=a"]).is_unambiguous(), Ok(()));
        let twice = metadata(&["k=a", "l=a", "k=b"]).is_unambiguous().unwrap_err();
        assert_eq!(twice.text, "Error: --label is given twice for k; nothing was changed");
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
