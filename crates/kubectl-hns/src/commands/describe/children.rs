//! The children of a namespace, and its anchors without one.

use forest::Settings;
use futures::future::join_all;
use hns_api::{SubnamespaceAnchor, anchor_states, labels};
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::Serialize;

use crate::lines::printable;
use crate::session::{AT_ONCE, Session};
use crate::structure::Structure;

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Child {
    pub(super) name: String,
    subnamespace: bool,
    /// Whether the child is being deleted, as its namespace says or, if that cannot be read, its anchor.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    terminating: bool,
    /// Whether the settings exclude the namespace, so that it can be no child.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    excluded: bool,
    /// The state of an anchor that has no child, or does not own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor_state: Option<String>,
}

/// The anchor of this name.
fn anchor_of<'a>(anchors: &'a [SubnamespaceAnchor], name: &str) -> Option<&'a SubnamespaceAnchor> {
    anchors.iter().find(|it| it.metadata.name.as_deref() == Some(name))
}

/// The children whose anchors do not say what they are. There is none for full namespaces, and for subnamespaces that lost it. One that
/// is being deleted goes without its namespace if its definition is being deleted.
pub(super) fn undecided(shown: &[String], anchors: &[SubnamespaceAnchor]) -> Vec<String> {
    let unanchored = shown.iter().filter(|name| anchor_of(anchors, name).is_none()).cloned();
    let going = anchors.iter().filter(|it| is_going(it)).filter_map(|it| it.metadata.name.clone());
    unanchored.chain(going).collect()
}

/// The children of `name` as namespaces, as far as the user may read them: all, or if they may not be listed, these.
pub(super) async fn as_namespaces(session: &Session, name: &str, children: &[String]) -> Structure {
    if children.is_empty() {
        return Structure::default();
    }
    let below = ListParams::default().labels(&format!("{}=1", labels::tree_label(name)));
    let found = match session.list_metadata(&session.all::<Namespace>(), &below).await {
        Err(problem) if problem.is_forbidden() => each(session, children).await,
        other => other.unwrap_or_default(),
    };
    let namespaces = found.iter().map(|it| ingest::namespace(&it.metadata));
    let namespaces = namespaces.map(|it| (it.name.clone(), it)).collect();
    Structure { namespaces, ..Structure::default() }
}

/// Those of these namespaces that the user may read.
async fn each(session: &Session, names: &[String]) -> Vec<PartialObjectMeta<Namespace>> {
    let namespaces = session.all::<Namespace>();
    let mut found = Vec::new();
    for some in names.chunks(AT_ONCE) {
        let reads = some.iter().map(|name| session.call(namespaces.get_metadata(name)));
        found.extend(join_all(reads).await.into_iter().filter_map(Result::ok));
    }
    found
}

/// Whether the anchor is being deleted.
fn is_going(anchor: &SubnamespaceAnchor) -> bool {
    anchor.metadata.deletion_timestamp.is_some()
}

/// The children and the anchors without one. A child is what its namespace says, as in `tree`, or else its anchor if that cannot be read.
pub(super) fn children(
    shown: &[String],
    anchors: &[SubnamespaceAnchor],
    known: &Structure,
    settings: &Settings,
) -> Vec<Child> {
    let is_excluded = |name: &str| settings.unmanaged(name).is_some();
    // A child can have an anchor that does not own it.
    let is_stale = |state: &str| [anchor_states::CONFLICT, anchor_states::FORBIDDEN].contains(&state);
    let is_terminating = |name: &str, owner: Option<&SubnamespaceAnchor>| match known.namespaces.get(name) {
        Some(namespace) => namespace.terminating,
        None => owner.is_some_and(is_going),
    };
    let existing = shown.iter().map(|name| {
        let anchor = anchor_of(anchors, name);
        let stale = anchor.and_then(SubnamespaceAnchor::state).filter(|it| is_stale(it));
        let subnamespace = if known.namespaces.contains_key(&**name) {
            known.is_subnamespace(name)
        } else {
            anchor.is_some() && stale.is_none()
        };
        let terminating = is_terminating(name, anchor.filter(|_| stale.is_none()));
        let (name, anchor_state) = (name.clone(), stale.map(str::to_owned));
        Child { excluded: is_excluded(&name), name, subnamespace, terminating, anchor_state }
    });
    let only_wanted = anchors.iter().filter_map(|anchor| {
        let name = anchor.metadata.name.clone().filter(|name| !shown.contains(name))?;
        let state = anchor.state().unwrap_or(anchor_states::MISSING);
        // The list of children may be a moment older than the anchors.
        let anchor_state = Some(state.to_owned()).filter(|it| it != anchor_states::OK);
        let terminating = is_terminating(&name, Some(anchor).filter(|_| anchor_state.is_none()));
        Some(Child { excluded: is_excluded(&name), name, subnamespace: true, terminating, anchor_state })
    });
    let mut children: Vec<Child> = existing.chain(only_wanted).collect();
    children.sort_by_key(Child::line);
    children
}

impl Child {
    pub(super) fn line(&self) -> String {
        let kind = match (&self.anchor_state, self.subnamespace) {
            (Some(state), _) => Some(format!("{} subnamespace", printable(state))),
            (None, true) => Some("subnamespace".to_owned()),
            (None, false) => None,
        };
        let excluded = self.excluded.then(|| "excluded".to_owned());
        let going = self.terminating.then(|| "terminating".to_owned());
        let words: Vec<String> = kind.into_iter().chain(excluded).chain(going).collect();
        let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
        format!("{}{words}", printable(&self.name))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use hns_api::{SubnamespaceAnchorSpec, SubnamespaceAnchorStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::structure::tests::sketch;

    pub(in super::super) fn anchor(name: &str, state: &str) -> SubnamespaceAnchor {
        let mut anchor = SubnamespaceAnchor::new(name, SubnamespaceAnchorSpec::default());
        anchor.status = Some(SubnamespaceAnchorStatus { status: Some(state.into()) });
        anchor
    }

    #[test]
    fn a_child_is_what_its_namespace_says() {
        let known = sketch(&["p", "[s] lost < p", "[s] sub < p", "full < p"]);
        let shown = ["lost", "sub", "full", "unread", "hidden"].map(str::to_owned);
        let anchors = [anchor("sub", "Ok"), anchor("full", "Conflict"), anchor("unread", "Ok")];
        assert_eq!(undecided(&shown, &anchors), ["lost", "hidden"]);
        let settings = Settings::new("home", ["hidden"], ".*").unwrap();
        let lines = |known: &Structure| -> Vec<String> {
            children(&shown, &anchors, known, &settings).iter().map(Child::line).collect()
        };
        let rest = ["hidden (excluded)", "lost", "sub (subnamespace)", "unread (subnamespace)"];
        for (known, lost) in [(known, "lost (subnamespace)"), (Structure::default(), "lost")] {
            let wanted = ["full (Conflict subnamespace)", rest[0], lost, rest[2], rest[3]];
            assert_eq!(lines(&known), wanted);
        }
    }

    #[test]
    fn a_child_that_is_being_deleted_is_called_so() {
        let mut known = sketch(&["p", "full < p", "[s] sub < p"]);
        for name in ["full", "sub"] {
            known.namespaces.get_mut(name).unwrap().terminating = name == "full";
        }
        let anchors =
            [("unread", "Ok"), ("stale", "Conflict"), ("sub", "Ok"), ("late", "Ok")].map(|(name, state)| {
                let mut anchor = anchor(name, state);
                anchor.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                anchor
            });
        let shown = ["full", "sub", "unread", "stale"].map(str::to_owned);
        assert_eq!(undecided(&shown, &anchors), ["full", "unread", "stale", "sub", "late"]);
        let settings = crate::structure::settings();
        let lines: Vec<String> =
            children(&shown, &anchors, &known, &settings).iter().map(Child::line).collect();
        assert_eq!(
            lines,
            [
                "full (terminating)",
                "late (subnamespace, terminating)",
                "stale (Conflict subnamespace)",
                "sub (subnamespace)",
                "unread (subnamespace, terminating)"
            ]
        );
    }
}
