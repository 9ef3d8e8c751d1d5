//! What a tree that passes to HNC's hierarchy would spread or lose: HNC copies by kind, and to everything below; Accurate copies what an
//! annotation names.

use std::collections::BTreeSet;

use forest::exclusion::OBJECTS_OF_EVERY_NAMESPACE;
use forest::{Kind, Mode, Name};
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::annotations::{PROPAGATE as EXCEPTIONS, PROPAGATE_ALL, PROPAGATE_NONE};
use hns_api::labels::INHERITED_FROM;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::tree::Tree;
use crate::Failure;
use crate::configured_kinds::ConfiguredKinds;
use crate::lines::first;

/// How many objects a message names; it counts the rest.
const NAMED: usize = 20;

/// What would become of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// It would be copied to everything below, and is not now.
    Spreads,
    /// Its copies would go.
    Lost,
    /// It is a copy that was created once, and stays as it is.
    Stays,
}

/// The resource and the name of an object, and its namespace.
type Key = (String, String, Name);

/// All findings, as `resource NAMESPACE/NAME`.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What HNC copies to everything below.
    going: Vec<Key>,
    /// What Accurate does not delete when its namespace leaves the tree.
    staying: BTreeSet<Key>,
    spreads: Vec<String>,
    lost: Vec<String>,
    pub(super) stays: usize,
}

impl Findings {
    /// Adds what is found in a namespace of a tree.
    pub(super) fn add(
        &mut self,
        (kind, mode): (&Kind, Option<Mode>),
        namespace: &Name,
        has_children: bool,
        object: &ObjectMeta,
    ) {
        if is_in_every_namespace(kind, object) {
            return;
        }
        let key = (kind.group_resource(), object.name.clone().unwrap_or_default(), namespace.clone());
        match finding(mode, has_children, object) {
            Some(Finding::Spreads) => self.spreads.push(shown(&key)),
            Some(Finding::Lost) => self.lost.push(shown(&key)),
            Some(Finding::Stays) => self.stays += 1,
            None => {}
        }
        if has_children && goes(mode, object) {
            self.going.push(key.clone());
        }
        let is_followed =
            annotation(object, FROM).is_some() && annotation(object, PROPAGATE) == Some("update");
        if !is_followed && !is_copy(object) {
            self.staying.insert(key);
        }
    }

    /// Fails if rights or content would spread, if copies would be lost, or if the webhook would refuse a namespace of the tree.
    pub(super) fn allow(&self, tree: &Tree) -> Result<(), Failure> {
        let refused = |what: &str, objects: &[String], hint: &str| {
            let text = format!("Error: {what}: {}; nothing was changed", first(objects, NAMED));
            if objects.is_empty() { Ok(()) } else { Err(Failure::new(text).with_hint(hint)) }
        };
        refused(
            "HNC copies these objects to all namespaces below, and Accurate does not",
            &self.spreads,
            "Keep each where it is with `kubectl annotate RESOURCE NAME -n NAMESPACE propagate.hnc.x-k8s.io/none=true`, or have Accurate \
             copy it first.",
        )?;
        refused(
            "Accurate copies these objects, and HNC does not, so their copies would be deleted",
            &self.lost,
            "Let HNC copy them: `kubectl hns config set-resource RESOURCE --mode AllowPropagate`, and annotate each with \
             propagate.hnc.x-k8s.io/all=true; or remove the annotation accurate.cybozu.com/propagate.",
        )?;
        refused(
            "these objects are in the way of what HNC copies from above",
            &self.in_the_way(tree),
            "Rename or delete them; or keep HNC from copying what has their name above, with the annotation \
             propagate.hnc.x-k8s.io/none=true.",
        )
    }

    fn in_the_way(&self, tree: &Tree) -> Vec<String> {
        let below = |from: &Name| {
            let mut found = BTreeSet::from([from.clone()]);
            // Parents are first.
            for (name, parent) in &tree.below {
                if found.contains(parent) {
                    found.insert(name.clone());
                }
            }
            found.remove(from);
            found
        };
        let in_the_way = self.going.iter().flat_map(|(resource, name, from)| {
            let keys = below(from).into_iter().map(|it| (resource.clone(), name.clone(), it));
            keys.filter(|key| self.staying.contains(key)).collect::<Vec<_>>()
        });
        in_the_way.map(|key| shown(&key)).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn shown((resource, name, namespace): &Key) -> String {
    format!("{resource} {namespace}/{name}")
}

fn annotation<'a>(object: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    object.annotations.as_ref()?.get(key).map(String::as_str).filter(|it| !it.is_empty())
}

/// HNC never copies these.
fn is_in_every_namespace(kind: &Kind, object: &ObjectMeta) -> bool {
    let is_it = |(of, name): &(&str, &str)| *kind.kind == **of && object.name.as_deref() == Some(*name);
    kind.group.is_empty() && OBJECTS_OF_EVERY_NAMESPACE.iter().any(is_it)
}

fn is_excepted(object: &ObjectMeta) -> bool {
    EXCEPTIONS.iter().any(|key| annotation(object, key).is_some())
}

/// Whether HNC copies it to everything below.
fn goes(mode: Option<Mode>, object: &ObjectMeta) -> bool {
    is_source(object)
        && match mode {
            Some(Mode::Propagate) => !is_excepted(object),
            Some(Mode::AllowPropagate) => annotation(object, PROPAGATE_ALL).is_some(),
            _ => false,
        }
}

/// Whether it is a copy of HNC's.
fn is_copy(object: &ObjectMeta) -> bool {
    object.labels.as_ref().is_some_and(|it| it.contains_key(INHERITED_FROM))
}

/// Whether HNC may copy it: it is no copy.
fn is_source(object: &ObjectMeta) -> bool {
    annotation(object, FROM).is_none() && !is_copy(object)
}

/// `mode` is HNC's for the kind, if it is configured.
fn finding(mode: Option<Mode>, has_children: bool, object: &ObjectMeta) -> Option<Finding> {
    let copied = annotation(object, PROPAGATE);
    if annotation(object, FROM).is_some() {
        return (copied != Some("update")).then_some(Finding::Stays);
    }
    if !has_children || !is_source(object) {
        return None;
    }
    match copied {
        Some("create") => None,
        Some("update") => {
            let is_copied = match mode {
                Some(Mode::Propagate) => true,
                Some(Mode::AllowPropagate) => is_excepted(object),
                _ => false,
            };
            (!is_copied || annotation(object, PROPAGATE_NONE).is_some()).then_some(Finding::Lost)
        }
        _ => (mode == Some(Mode::Propagate) && !is_excepted(object)).then_some(Finding::Spreads),
    }
}

/// The kinds to look at, each with HNC's mode.
pub(super) fn kinds(configured: &ConfiguredKinds, watched: Vec<Kind>) -> Vec<(Kind, Option<Mode>)> {
    let settings = configured.settings();
    let mut kinds: Vec<(Kind, Option<Mode>)> =
        settings.into_iter().filter(|it| it.mode.propagates()).map(|it| (it.kind, Some(it.mode))).collect();
    let is_new = |kinds: &[(Kind, Option<Mode>)], kind: &Kind| {
        kinds.iter().all(|(it, _)| (&it.group, &it.resource) != (&kind.group, &kind.resource))
    };
    for kind in watched {
        if is_new(&kinds, &kind) {
            kinds.push((kind, None));
        }
    }
    kinds
}

/// The namespaces of the tree with others below them.
pub(super) fn parents(tree: &Tree) -> BTreeSet<&Name> {
    tree.below.iter().map(|(_, parent)| parent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_accurate_copies_is_what_hnc_may_copy() {
        let none = "propagate.hnc.x-k8s.io/none";
        let found = |mode, annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let object = ObjectMeta { annotations: Some(annotations.collect()), ..ObjectMeta::default() };
            [finding(mode, true, &object), finding(mode, false, &object)]
        };
        let (all, some) = (Some(Mode::Propagate), Some(Mode::AllowPropagate));
        let update = (PROPAGATE, "update");
        for (mode, annotations, wanted) in [
            (all, &[][..], Some(Finding::Spreads)),
            (all, &[(none, "true")], None),
            (some, &[], None),
            (None, &[], None),
            (all, &[update], None),
            (all, &[update, (none, "true")], Some(Finding::Lost)),
            (some, &[update], Some(Finding::Lost)),
            (some, &[update, ("propagate.hnc.x-k8s.io/all", "true")], None),
            (None, &[update], Some(Finding::Lost)),
            (None, &[(PROPAGATE, "create")], None),
            (all, &[(PROPAGATE, "other")], Some(Finding::Spreads)),
        ] {
            assert_eq!(found(mode, annotations), [wanted, None], "{mode:?} {annotations:?}");
        }
        let copy = |mode| found(all, &[(FROM, "r"), (PROPAGATE, mode)]);
        assert_eq!((copy("update"), copy("create")), ([None; 2], [Some(Finding::Stays); 2]));
    }

    #[test]
    fn what_is_in_the_way_is_found_before_the_first_write() {
        let place = |(name, parent): (&str, &str)| (Name::from(name), Name::from(parent));
        let below = [("s", "r"), ("u", "r"), ("t", "s")].map(place).to_vec();
        let tree = Tree { root: "r".into(), below, steps: Vec::new() };
        let object = |name: &str, annotations: &[(&str, &str)]| ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(
                annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ),
            ..ObjectMeta::default()
        };
        let mut found = Findings::default();
        let (update, create) = ((PROPAGATE, "update"), (PROPAGATE, "create"));
        for (namespace, name, annotations) in [
            ("r", "a", &[update][..]),
            ("s", "a", &[update, (FROM, "r")]),
            ("t", "a", &[]),
            ("r", "b", &[create]),
            ("u", "b", &[create, (FROM, "r")]),
            ("r", "c", &[create, ("propagate.hnc.x-k8s.io/none", "true")]),
            ("u", "c", &[create, (FROM, "r")]),
            ("s", "d", &[update]),
            ("u", "d", &[]),
        ] {
            let has_children = ["r", "s"].contains(&namespace);
            let kind = (&Kind::role_binding(), Some(Mode::Propagate));
            found.add(kind, &namespace.into(), has_children, &object(name, annotations));
        }
        let resource = Kind::role_binding().group_resource();
        assert_eq!(found.in_the_way(&tree), [format!("{resource} t/a"), format!("{resource} u/b")]);
        assert_eq!(found.stays, 2);
    }
}
