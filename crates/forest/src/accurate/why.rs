//! Why an object is in a namespace of Accurate's hierarchy, or is not, and why nothing reaches a namespace. Asks the plans' own
//! decisions, so that an explanation cannot contradict them.

use super::plan::place::{Decision, Place, Reach, is_followed, reach};
use crate::core::hop::HopMode;
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::tree::EdgeKind;
use crate::dialects::Forest;

/// Why nothing is written in a namespace, although it has labels of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frozen {
    /// This namespace, it or its upstream namespace, is in a hierarchy of HNC's, too.
    Crossed(Name),
    /// Its upstream namespace does not exist.
    Missing(Name),
    /// Its upstream namespace is not one of that kind: no root and no sub-namespace, or no template.
    NotLeading(EdgeKind, Name),
    /// It is in a cycle.
    Cycle,
}

/// Why nothing is written in this namespace, if so.
pub fn frozen(forest: &Forest, namespace: &str) -> Option<Frozen> {
    match reach(forest, forest.id(namespace)?) {
        Reach::Frozen(why) => Some(why),
        _ => None,
    }
}

/// Why an object is in a namespace as it is, or is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The namespace does not exist, is being deleted, or is excluded by name.
    OutOfReach,
    /// Nothing is written in the namespace.
    Frozen(Frozen),
    /// The namespace has no upstream namespace.
    Alone,
    /// The upstream namespace has no such object.
    NoSource(Name),
    /// The one in the upstream namespace does not ask for copies, or, if `true`, in a mode that does not exist.
    NotAsking(Name, bool),
    /// The one in the upstream namespace is a binding to this Role, which is not the same here.
    OtherRole(Name, Name),
    /// It is a copy of the one in the upstream namespace, and follows it.
    Follows(Name),
    /// The one in the upstream namespace is copied once, and there is an object here.
    CreatedOnce(Name),
    /// The one in the upstream namespace is to be copied, and will be.
    ToBeWritten(Name),
    /// It is a copy without a source, and will be deleted.
    ToBeDeleted,
    /// It is a user's own object, and is kept although the one in the upstream namespace should replace it.
    Kept(Name),
}

/// Why this object is in the namespace as it is, or is not there. The kind must be watched.
pub fn why(forest: &Forest, namespace: &str, key: &ObjectKey) -> Why {
    let Some(place) = Place::of(forest, namespace) else { return Why::OutOfReach };
    let upstream = match forest.id(namespace).map(|id| reach(forest, id)) {
        None | Some(Reach::None) => return Why::OutOfReach,
        Some(Reach::Frozen(why)) => return Why::Frozen(why),
        Some(Reach::Alone) => None,
        Some(Reach::From(_, upstream)) => Some(upstream),
    };
    match place.decide(key) {
        Decision::Delete => Why::ToBeDeleted,
        Decision::Report(upstream) => Why::Kept(upstream.clone()),
        Decision::Write(upstream, _) => Why::ToBeWritten(upstream.clone()),
        Decision::Leave => match upstream {
            None => Why::Alone,
            Some(upstream) => left(&place, forest.name(upstream), key),
        },
    }
}

/// Why an object needs no write.
fn left(place: &Place<'_>, upstream: &Name, key: &ObjectKey) -> Why {
    let name = upstream.clone();
    let Some((_, source)) = place.asking(key) else {
        let there = place.forest.id(upstream).and_then(|id| place.forest.object(id, key));
        let is_unknown = |mode| mode == Some(HopMode::Unknown);
        return match there {
            None => Why::NoSource(name),
            Some(object) => Why::NotAsking(name, object.hop().is_some_and(|hop| is_unknown(hop.mode))),
        };
    };
    match (place.object(key), place.role_of(key)) {
        (None, Some(role)) => Why::OtherRole(name, role.name),
        (Some(object), _) if is_followed(object) && source.mode == Some(HopMode::Update) => {
            Why::Follows(name)
        }
        _ => Why::CreatedOnce(name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::accurate::settings::Settings;
    use crate::accurate::world::{binds, draw, key, object, settings};

    fn put(forest: &mut Forest, settings: &Settings, what: [&str; 4], kind: &str) {
        let [namespace, name, mode, from] = what;
        let body = if kind == "RoleBinding" { binds("b", "eve") } else { json!({ "content": 1 }) };
        forest.apply(object(settings, namespace, &key(kind, name), [mode, from], &body, "1"));
    }

    #[test]
    fn frozen_namespaces_have_a_reason() {
        let forest = draw("r root, s ^r, o ^gone, n, m ^n, i ~r, x ^y, y ^x, t template, u ~t");
        let (parent, template) = (EdgeKind::Parent, EdgeKind::Template);
        for (name, wanted) in [
            ("r", None),
            ("s", None),
            ("u", None),
            ("o", Some(Frozen::Missing("gone".into()))),
            ("m", Some(Frozen::NotLeading(parent, "n".into()))),
            ("i", Some(Frozen::NotLeading(template, "r".into()))),
            ("x", Some(Frozen::Cycle)),
        ] {
            assert_eq!(frozen(&forest, name), wanted, "{name}");
        }
    }

    #[test]
    fn every_object_has_a_reason_to_be_there_or_not() {
        let settings = settings();
        let mut forest = draw("r root, s ^r, o ^gone, n");
        for what in [
            ["r", "followed", "update", ""],
            ["s", "followed", "update", "r"],
            ["r", "new", "create", ""],
            ["r", "once", "create", ""],
            ["s", "once", "", ""],
            ["r", "mine", "update", ""],
            ["s", "mine", "", ""],
            ["r", "silent", "", ""],
            ["r", "odd", "always", ""],
            ["s", "stale", "update", "r"],
        ] {
            put(&mut forest, &settings, what, "Secret");
        }
        put(&mut forest, &settings, ["r", "bound", "update", ""], "RoleBinding");
        let r = || Name::from("r");
        for (namespace, kind, name, wanted) in [
            ("s", "Secret", "new", Why::ToBeWritten(r())),
            ("s", "Secret", "once", Why::CreatedOnce(r())),
            ("s", "Secret", "mine", Why::Kept(r())),
            ("s", "Secret", "silent", Why::NotAsking(r(), false)),
            ("s", "Secret", "odd", Why::NotAsking(r(), true)),
            ("s", "Secret", "none", Why::NoSource(r())),
            ("s", "Secret", "stale", Why::ToBeDeleted),
            ("s", "RoleBinding", "bound", Why::OtherRole(r(), "b".into())),
            ("r", "Secret", "new", Why::Alone),
            ("n", "Secret", "new", Why::Alone),
            ("o", "Secret", "new", Why::Frozen(Frozen::Missing("gone".into()))),
            ("nowhere", "Secret", "new", Why::OutOfReach),
        ] {
            assert_eq!(why(&forest, namespace, &key(kind, name)), wanted, "{namespace} {name}");
        }
        let followed = why(&forest, "s", &key("Secret", "followed"));
        assert!(matches!(followed, Why::Follows(_)), "{followed:?}");
    }
}
