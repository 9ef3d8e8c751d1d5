//! `create`: creates subnamespaces by creating their anchors.

mod file;
mod refused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use hns_api::{KeyValue, SubnamespaceAnchor, SubnamespaceAnchorSpec, anchor_states};
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::Value;

pub(super) use self::refused::Refused;
use super::{hierarchy, relocation};
use crate::failure::{Done, Problem};
use crate::installation::are_defined;
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
            file::anchors(&file::read(path)?, path, (named, &session.namespace))?
        }
        (None, name) => {
            arguments.metadata.is_unambiguous()?;
            let mut anchor =
                SubnamespaceAnchor::new(name.as_deref().unwrap_or_default(), arguments.metadata.spec());
            anchor.metadata.namespace = Some(session.namespace.clone());
            vec![anchor]
        }
    };
    are_defined(session, "no subnamespace can be created now").await?;
    // As with kubectl, one that cannot be created does not stop the others.
    let (mut failed, count) = (Vec::new(), anchors.len());
    let path = arguments.filename.as_deref();
    for anchor in &anchors {
        if let Err(failure) = create((anchor, path), &arguments.wait, session, terminal).await {
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

/// That an anchor of the file `path` exists with the same content is no failure.
async fn create(
    (anchor, path): (&SubnamespaceAnchor, Option<&Path>),
    wait: &WaitArgs,
    session: &Session,
    terminal: &Terminal,
) -> Done {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let (child, parent) = (&*text(&anchor.metadata.name), &*text(&anchor.metadata.namespace));
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    match session.call(anchors.create(&PostParams::default(), anchor)).await {
        Ok(_) => {
            terminal
                .line(&format!("Successfully created {child:?} subnamespace anchor in {parent:?} namespace"));
        }
        Err(problem) => {
            let reason = problem.to_string();
            let refused = Refused::read(session, (parent, child), &reason).await;
            if path.is_none() || !refused.found.as_ref().is_some_and(|found| is_unchanged(anchor, found)) {
                return Err(could_not(parent, &problem, refused.hint(session, path).await));
            }
            terminal.line(&format!("The {child:?} subnamespace anchor in {parent:?} namespace is unchanged"));
        }
    }
    if wait.is_wanted() {
        wait_for((parent, child), wait, session, terminal).await?;
        for note in overridden(anchor, child, session).await {
            terminal.note(&note);
        }
    }
    Ok(())
}

/// Waits until the subnamespace is there, with all copies.
async fn wait_for(
    (parent, child): (&str, &str),
    wait: &WaitArgs,
    session: &Session,
    terminal: &Terminal,
) -> Done {
    let anchors = session.within::<SubnamespaceAnchor>(parent);
    let (what, deadline) = (format!("namespace {child}"), wait.deadline());
    until(terminal, (&what, &format!("describe {parent}")), deadline, async || {
        let seen = session.call(anchors.get(child)).await;
        let seen = seen.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
        state((parent, child), &seen)
    })
    .await?;
    let place = format!("the subnamespace {child}");
    let arrival =
        relocation::wait_for_arrival(session, terminal, (&place, child, Some(parent)), deadline).await?;
    for note in &arrival.unchecked {
        terminal.note(note);
    }
    Ok(())
}

/// Notes on the labels and annotations of the anchor that namespaces above override, as far as the user may read the namespace.
async fn overridden(anchor: &SubnamespaceAnchor, child: &str, session: &Session) -> Vec<String> {
    let SubnamespaceAnchorSpec { labels, annotations } = &anchor.spec;
    if labels.is_none() && annotations.is_none() {
        return Vec::new();
    }
    let Ok((present, hierarchy)) = hierarchy::find(session, child).await else { return Vec::new() };
    let conditions = hierarchy.as_ref().map_or(&[][..], hierarchy::conditions);
    let notes = [("label", labels, present.labels), ("annotation", annotations, present.annotations)];
    let notes = notes.into_iter().flat_map(|(what, wanted, present)| {
        let (wanted, present) = (wanted.iter().flatten(), present.unwrap_or_default());
        wanted.filter_map(|it| without_effect(what, it, &present, conditions)).collect::<Vec<_>>()
    });
    notes.collect()
}

/// A note if the namespace has another value than the anchor says, with the ancestor that a condition names.
fn without_effect(
    what: &str,
    KeyValue { key, value }: &KeyValue,
    present: &BTreeMap<String, String>,
    conditions: &[Value],
) -> Option<String> {
    let set = present.get(key).filter(|it| *it != value)?;
    let start = format!("{key}={value} (ancestor \"");
    let mut messages = conditions.iter().filter_map(|it| it["message"].as_str());
    let ancestor = messages.find_map(|it| it.split_once(&start)?.1.split('"').next());
    let above = ancestor.map_or("a namespace above".to_owned(), |it| format!("ancestor {it}"));
    Some(format!("{what} {key}={value} has no effect: {above} sets {set}"))
}

/// Whether the anchor that exists has all that the `wanted` one says.
fn is_unchanged(wanted: &SubnamespaceAnchor, found: &SubnamespaceAnchor) -> bool {
    let spec = |it: &SubnamespaceAnchor| {
        [&it.spec.labels, &it.spec.annotations].map(|pairs| pairs.clone().unwrap_or_default())
    };
    let has = |found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| found.get(key) == Some(value))
    };
    found.metadata.deletion_timestamp.is_none()
        && spec(wanted) == spec(found)
        && has(found.labels(), wanted.labels())
        && has(found.annotations(), wanted.annotations())
}

fn could_not(parent: &str, problem: &Problem, hint: Option<String>) -> Failure {
    let failure = Failure::could_not("create subnamespace anchor", problem);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None if problem.is_forbidden() => failure
            .and_hint(&format!("If {parent} is new: its RoleBindings arrive within seconds. Try again.")),
        None => failure,
    }
}

/// The progress of a new subnamespace, from the state of its anchor.
fn state(place: (&str, &str), anchor: &SubnamespaceAnchor) -> Result<Progress, Failure> {
    match anchor.state() {
        Some(anchor_states::OK) => Ok(Progress::Done),
        None | Some(anchor_states::MISSING) => Ok(Progress::missing("the controller has not created it yet")),
        Some(other) => {
            let failure = Failure::new(format!("Error: the anchor of {} is in state {other}", place.1));
            Err(failure.with_hint(refused::despite(place, Some(anchor), false, None)))
        }
    }
}

#[cfg(test)]
mod tests {
    use hns_api::SubnamespaceAnchorStatus;
    use serde_json::json;

    use super::*;

    #[test]
    fn waiting_ends_when_the_anchor_is_ok_or_fails() {
        let state = |it: &str| {
            let mut anchor = with(&json!({}), &json!({}));
            anchor.status = Some(SubnamespaceAnchorStatus { status: Some(it.into()) });
            state(("p", "c"), &anchor)
        };
        assert_eq!(state("Ok"), Ok(Progress::Done));
        assert!(matches!(state("Missing"), Ok(Progress::Part(..))));
        assert!(matches!(super::state(("p", "c"), &with(&json!({}), &json!({}))), Ok(Progress::Part(..))));
        let failure = state("Conflict").unwrap_err();
        assert_eq!(failure.text, "Error: the anchor of c is in state Conflict");
        assert!(failure.hint.unwrap().starts_with("The anchor c in p is in conflict about the name."));
    }

    pub(super) fn with(metadata: &Value, spec: &Value) -> SubnamespaceAnchor {
        let object = json!({
            "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "SubnamespaceAnchor", "metadata": metadata, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_refused_anchor_keeps_a_hint_of_its_own() {
        let hint = |code: u16, message: &str, hint: Option<&str>| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            could_not("p", &Problem::Refused(Box::new(status)), hint.map(str::to_owned)).hint
        };
        let there = "admission webhook \"w\" denied the request: subnamespaceanchors.hnc.x-k8s.io \"x\" already exists";
        assert_eq!(hint(409, there, Some("Wait.")).as_deref(), Some("Wait."));
        let taken = "namespace \"x\" exists already and is not a subnamespace of \"p\"; choose another name";
        assert_eq!(hint(409, taken, None), None);
        let forbidden = "subnamespaceanchors.hnc.x-k8s.io is forbidden: User \"u\" cannot create resource \"subnamespaceanchors\" \
                         in API group \"hnc.x-k8s.io\" in the namespace \"p\"";
        assert!(hint(403, forbidden, None).unwrap().contains("\nIf p is new: its RoleBindings arrive"));
    }

    #[test]
    fn an_anchor_is_unchanged_if_it_has_all_that_is_wanted() {
        let pair = |value: &str| json!({ "labels": [{ "key": "k", "value": value }] });
        let found = with(&json!({ "labels": { "a": "1", "b": "2" } }), &pair("v"));
        for (metadata, spec, unchanged) in [
            (json!({}), pair("v"), true),
            (
                json!({ "labels": { "a": "1" } }),
                json!({ "labels": pair("v")["labels"], "annotations": [] }),
                true,
            ),
            (json!({ "labels": { "a": "2" } }), pair("v"), false),
            (json!({}), pair("w"), false),
            (json!({}), json!({}), false),
        ] {
            assert_eq!(is_unchanged(&with(&metadata, &spec), &found), unchanged, "{metadata} {spec}");
        }
        let ends = with(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), &json!({}));
        assert!(!is_unchanged(&with(&json!({}), &json!({})), &ends));
    }

    #[test]
    fn a_value_that_an_ancestor_overrides_has_no_effect() {
        let message = "These managed values are overridden from above: k=v (ancestor \"top\" says \"w\")";
        let conditions = [json!({ "reason": "X", "message": "x" }), json!({ "message": message })];
        let wanted = KeyValue { key: "k".into(), value: "v".into() };
        for (present, conditions, note) in [
            (Some("w"), &conditions[..], Some("label k=v has no effect: ancestor top sets w")),
            (Some("w"), &[], Some("label k=v has no effect: a namespace above sets w")),
            (Some("v"), &[], None),
            (None, &[], None),
        ] {
            let present = present.map(|it| ("k".to_owned(), it.to_owned())).into_iter().collect();
            let found = without_effect("label", &wanted, &present, conditions);
            assert_eq!(found.as_deref(), note, "{present:?}");
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
