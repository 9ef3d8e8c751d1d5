//! What can be done about an anchor that cannot be created.

use std::path::Path;

use hns_api::{SubnamespaceAnchor, anchor_states};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::commands::hierarchy;
use crate::session::Session;

/// Whether the reason is that the anchor exists, maybe before its namespace.
fn exists(reason: &str) -> bool {
    reason.ends_with("already exists")
}

/// Whether the reason is that there is a namespace of this name that is not a subnamespace of the parent.
fn is_taken(reason: &str) -> bool {
    reason.contains("exists already and is not a subnamespace of")
}

/// An anchor that cannot be created.
pub(in crate::commands) struct Refused<'a> {
    /// Its namespace and its name.
    place: (&'a str, &'a str),
    reason: &'a str,
    /// The anchor of this name, if that is the reason and it can be read.
    pub(super) found: Option<SubnamespaceAnchor>,
}

impl<'a> Refused<'a> {
    pub(in crate::commands) async fn read(
        session: &Session,
        place: (&'a str, &'a str),
        reason: &'a str,
    ) -> Self {
        let (parent, child) = place;
        let anchors = session.within::<SubnamespaceAnchor>(parent);
        let found = if exists(reason) { session.call(anchors.get(child)).await.ok() } else { None };
        Self { place, reason, found }
    }

    /// What can be done if the name is taken, or was when the anchor of this name was created, as far as the user may read that; `path` is the
    /// file that names the anchor.
    pub(in crate::commands) async fn hint(&self, session: &Session, path: Option<&Path>) -> Option<String> {
        let (_, child) = self.place;
        if exists(self.reason) {
            let is_free = self.found.as_ref().is_some_and(is_in_conflict)
                && matches!(session.call(session.all::<Namespace>().get_metadata_opt(child)).await, Ok(None));
            return Some(despite(self.place, self.found.as_ref(), is_free, path));
        }
        if !is_taken(self.reason) {
            return None;
        }
        let (namespace, object) = hierarchy::find(session, child).await.ok()?;
        let above = object.and_then(|it| hierarchy::spec(&it).parent);
        instead(self.place, &namespace, above.as_deref())
    }
}

fn is_in_conflict(anchor: &SubnamespaceAnchor) -> bool {
    anchor.state() == Some(anchor_states::CONFLICT)
}

/// What can be done if the anchor exists: `found`, if it can be read. `is_free` means that it is in conflict about a name that is free, and
/// `path` is the file that names it.
pub(super) fn despite(
    (parent, child): (&str, &str),
    found: Option<&SubnamespaceAnchor>,
    is_free: bool,
    path: Option<&Path>,
) -> String {
    let again = format!("delete it (`kubectl delete subns {child} -n {parent}`) and create it again.");
    match (found, path) {
        (Some(found), _) if found.metadata.deletion_timestamp.is_some() => {
            format!("The anchor {child} in {parent} is being deleted: try again when it is gone.")
        }
        // It does not take the name by itself.
        (Some(_), _) if is_free => {
            format!("The anchor {child} in {parent} is in conflict, but the name is free: {again}")
        }
        (Some(found), _) if is_in_conflict(found) => format!(
            "The anchor {child} in {parent} is in conflict about the name. Choose another name; or, when the name is free, {again}"
        ),
        (Some(found), _) if found.state() == Some(anchor_states::FORBIDDEN) => format!(
            "The anchor {child} in {parent} is in state Forbidden: its name is excluded, or it was beyond a limit of spec.trees when it was \
             created (`kubectl hns config describe` shows the limits). When both allow it, {again}"
        ),
        (Some(_), Some(path)) => format!(
            "It exists with other labels or annotations; `kubectl apply -f {}` changes them.",
            path.display()
        ),
        (Some(found), None) if found.state() == Some(anchor_states::OK) => {
            format!("{child} is a subnamespace of {parent} already: `kubectl hns describe {child}` shows it.")
        }
        _ => format!(
            "Choose another name. `kubectl hns describe {parent}` shows the subnamespaces of {parent}."
        ),
    }
}

/// What can be done if there is a namespace of this name, with this parent `above`.
fn instead((parent, child): (&str, &str), namespace: &ObjectMeta, above: Option<&str>) -> Option<String> {
    if namespace.deletion_timestamp.is_some() {
        return Some(format!("The namespace {child} is being deleted: try again when it is gone."));
    }
    let to_convert = || {
        format!(
            "{child} is a full namespace and a child of {parent} already: `kubectl hns convert {child} --to sub` makes it a \
             subnamespace."
        )
    };
    (above == Some(parent)).then(to_convert)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::with;
    use super::*;

    #[test]
    fn an_anchor_that_exists_has_a_hint_that_fits() {
        let (going, there) = (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), json!({}));
        let (ends, choose) =
            ("The anchor x in p is being deleted", "Choose another name. `kubectl hns describe p`");
        let (again, already) =
            ("`kubectl delete subns x -n p`) and create it again", "x is a subnamespace of p already");
        let file = Some(Path::new("f.yaml"));
        for (found, is_free, path, wanted) in [
            (None, false, None, choose),
            (None, false, file, choose),
            (Some((&going, "Ok")), false, None, ends),
            (Some((&going, "Conflict")), true, file, ends),
            (Some((&there, "Ok")), false, None, already),
            (Some((&there, "Ok")), false, file, "`kubectl apply -f f.yaml`"),
            (Some((&there, "Conflict")), true, None, again),
            (Some((&there, "Conflict")), true, file, again),
            (
                Some((&there, "Conflict")),
                false,
                None,
                "Choose another name; or, when the name is free, delete it (`kubectl",
            ),
            (Some((&there, "Conflict")), false, file, again),
            (Some((&there, "Forbidden")), false, None, again),
            (Some((&there, "Forbidden")), false, file, again),
            (Some((&there, "Missing")), false, None, choose),
        ] {
            let found = found.map(|(metadata, state)| {
                let mut anchor = with(metadata, &json!({}));
                anchor.status.get_or_insert_default().status = Some(state.to_owned());
                assert_eq!(is_in_conflict(&anchor), state == "Conflict");
                anchor
            });
            let hint = despite(("p", "x"), found.as_ref(), is_free, path);
            assert!(hint.contains(wanted), "{wanted}: {hint}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_free_later_or_becomes_a_subnamespace() {
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let deleted = Some("The namespace x is being deleted: try again when it is gone.");
        for (namespace, above, wanted) in [
            (&going, None, deleted),
            (&going, Some("p"), deleted),
            (&json!({}), Some("p"), Some("`kubectl hns convert x --to sub`")),
            (&json!({}), Some("q"), None),
            (&json!({}), None, None),
        ] {
            let namespace = serde_json::from_value(namespace.clone()).unwrap();
            let hint = instead(("p", "x"), &namespace, above);
            assert!(hint.is_some() == wanted.is_some(), "{hint:?}");
            assert!(hint.unwrap_or_default().contains(wanted.unwrap_or_default()), "{wanted:?}");
        }
    }

    #[test]
    fn the_reason_says_which_name_is_in_the_way() {
        let there = "admission webhook \"w\" denied the request: subnamespaceanchors.hnc.x-k8s.io \"x\" already exists";
        let taken = "namespace \"x\" exists already and is not a subnamespace of \"p\"; choose another name";
        assert!(is_taken(taken) && !is_taken(there) && exists(there) && !exists(taken));
    }
}
