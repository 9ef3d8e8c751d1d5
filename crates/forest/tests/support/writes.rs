//! What a plan should come to, by the naive model: every write that is missing, and none that is not.

use std::collections::{BTreeMap, BTreeSet};

use forest::plan::{Action, Edit, HncAction, Plan};
use forest::{
    AnchorFact, AnchorState, Condition, HierarchyStatus, Labels, Mode, Name, ObjectKey, Version, keys,
};

use super::{Copied, Fate, Pairs};
use crate::cluster::{Cluster, Object, bindings};

/// The effect of a plan, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Writes {
    /// By key, what to set or that it is to be removed.
    pub(crate) labels: BTreeMap<String, Option<String>>,
    pub(crate) annotations: BTreeMap<String, Option<String>>,
    pub(crate) anchors: BTreeMap<Name, AnchorWrite>,
    pub(crate) created: BTreeSet<Name>,
    pub(crate) deleted: BTreeMap<Name, Version>,
    pub(crate) objects: BTreeMap<ObjectKey, Write>,
}

/// Of which state, the finalizers and the state to write.
type AnchorWrite = (Version, Option<Vec<Box<str>>>, Option<AnchorState>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    Put(Option<Version>, Copied),
    Delete(Version),
}

/// The finalizers with ours or without it, if they are not so already.
pub(crate) fn refinalized(present: &[Box<str>], ours: &str, wanted: bool) -> Option<Vec<Box<str>>> {
    let mut finalizers: Vec<Box<str>> = present.iter().filter(|it| ***it != *ours).cloned().collect();
    let held = finalizers.len() < present.len();
    if wanted {
        finalizers.push(ours.into());
    }
    (held != wanted).then_some(finalizers)
}

fn difference(present: &Labels, wanted: Pairs) -> BTreeMap<String, Option<String>> {
    let gone = present.iter().filter(|(key, _)| !wanted.contains_key(*key));
    let mut writes: BTreeMap<_, _> = gone.map(|(key, _)| (key.to_owned(), None)).collect();
    let set = wanted.into_iter().filter(|(key, value)| present.get(key) != Some(value));
    writes.extend(set.map(|(key, value)| (key, Some(value))));
    writes
}

impl Writes {
    /// What should be written in `name`.
    pub(crate) fn wanted(cluster: &Cluster, name: &Name) -> Self {
        let mut writes = Self::default();
        if let Some(seen) = cluster.namespaces.get(name) {
            writes.labels = difference(&seen.labels, cluster.wanted_labels(name));
            writes.annotations = difference(&seen.annotations, cluster.wanted_annotations(name));
        }
        for ((_, child), anchor) in cluster.anchors.iter().filter(|((parent, _), _)| parent == name) {
            writes.want_anchor(cluster, name, child, anchor);
        }
        let keys = cluster.keys().into_iter();
        let wanted = keys.filter(|key| cluster.mode(key) != Mode::Ignore).filter_map(|key| {
            let write = if cluster.is_frozen(name) {
                Write::forsaken(cluster, name, &key)
            } else {
                Write::wanted(cluster, name, &key)
            };
            Some((key, write?))
        });
        writes.objects.extend(wanted);
        writes
    }

    fn want_anchor(&mut self, cluster: &Cluster, name: &Name, child: &Name, anchor: &AnchorFact) {
        let (held, state, fate) = cluster.wanted_anchor(name, anchor);
        let finalizers = refinalized(&anchor.finalizers, keys::ANCHOR_FINALIZER, held);
        let state = state.filter(|state| anchor.state.as_deref() != Some(state.as_str()));
        if finalizers.is_some() || state.is_some() {
            self.anchors.insert(child.clone(), (anchor.version.clone(), finalizers, state));
        }
        match fate {
            Fate::None => {}
            Fate::Create => drop(self.created.insert(child.clone())),
            Fate::Delete => {
                self.deleted.insert(child.clone(), cluster.namespaces[child].version.clone());
            }
        }
    }

    /// What `plan` writes in `name`. Deleted and created again counts as replaced.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut writes = Self::default();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            match action {
                Action::PatchNamespace { labels, annotations, .. } => {
                    put(&mut writes.labels, labels);
                    put(&mut writes.annotations, annotations);
                }
                Action::Dialect(HncAction::UpdateAnchor { child, version, finalizers, state }) => {
                    let write = (version.clone(), finalizers.clone(), *state);
                    let earlier = writes.anchors.insert(child.clone(), write);
                    assert_eq!(earlier, None, "the anchor {child} is written twice");
                }
                Action::Dialect(
                    HncAction::BindInitialAdmin { .. }
                    | HncAction::WriteDerivedQuota { .. }
                    | HncAction::DeleteDerivedQuota { .. }
                    | HncAction::FreeDerivedQuota { .. }
                    | HncAction::UpdateQuotaStatus { .. },
                ) => {
                    panic!("this test expects no such write: {action:?}")
                }
                Action::Dialect(HncAction::CreateSubnamespace { child, initial_admin }) => {
                    assert_eq!(*initial_admin, None, "{child}");
                    assert!(writes.created.insert(child.clone()), "{child} is created twice");
                }
                Action::Dialect(HncAction::DeleteSubnamespace { child, version }) => {
                    let earlier = writes.deleted.insert(child.clone(), version.clone());
                    assert_eq!(earlier, None, "{child} is deleted twice");
                }
                Action::CreateCopy { key, .. } | Action::ReplaceCopy { key, .. } => {
                    let copied = copied(action);
                    let before = match (action, writes.objects.remove(key)) {
                        (Action::ReplaceCopy { version, .. }, None) => Some(version.clone()),
                        (Action::CreateCopy { .. }, Some(Write::Delete(version))) => Some(version),
                        (Action::CreateCopy { .. }, None) => None,
                        (_, earlier) => panic!("{key:?} is written twice: {earlier:?}, {action:?}"),
                    };
                    writes.objects.insert(key.clone(), Write::Put(before, copied));
                }
                Action::DeleteCopy { key, version } => {
                    let earlier = writes.objects.insert(key.clone(), Write::Delete(version.clone()));
                    assert_eq!(earlier, None, "{key:?} is written and then deleted");
                }
                Action::Dialect(HncAction::CreateHierarchy { .. } | HncAction::UpdateHierarchy { .. }) => {
                    panic!("what is said of a namespace is no step: {action:?}")
                }
            }
        }
        writes
    }
}

fn put(writes: &mut BTreeMap<String, Option<String>>, edit: &Edit) {
    let set = edit.set.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
    for (key, value) in edit.remove.iter().map(|key| (key.clone(), None)).chain(set) {
        let earlier = writes.insert(key, value);
        assert_eq!(earlier, None, "{edit:?} is written twice");
    }
}

impl Write {
    fn forsaken(cluster: &Cluster, name: &Name, key: &ObjectKey) -> Option<Self> {
        let object = cluster.objects.get(&(name.clone(), key.clone()));
        let object = object.filter(|object| !Cluster::is_left_going(key, object))?;
        cluster.is_forsaken(name, key, object).then(|| Self::Delete(object.version.clone()))
    }

    fn wanted(cluster: &Cluster, name: &Name, key: &ObjectKey) -> Option<Self> {
        let object = cluster.objects.get(&(name.clone(), key.clone()));
        if object.is_some_and(|object| Cluster::is_left_going(key, object)) {
            return None;
        }
        let wanted = cluster.wanted_copy(name, key);
        let from = wanted.as_ref().filter(|_| key.kind == bindings()).map(|(from, _, _)| from);
        let held = from.is_some_and(|from| cluster.holds(name, from));
        match (wanted, object) {
            (None, None) => None,
            (Some(_), None) if held => None,
            (Some((_, _, body)), Some(object)) if held && object.body != body => {
                let goes = object.inherited_from.is_some() || cluster.changes_roles(name);
                goes.then(|| Self::Delete(object.version.clone()))
            }
            // It would be deleted and created again.
            (Some((_, _, body)), Some(object))
                if cluster.is_ending(name)
                    && key.kind == bindings()
                    && object.body != body
                    && cluster.changes_roles(name) =>
            {
                Some(Self::Delete(object.version.clone()))
            }
            (None, Some(object)) => {
                let goes = object.inherited_from.is_some() && !cluster.outlasts_its_source(name, key);
                goes.then(|| Self::Delete(object.version.clone()))
            }
            (Some(wanted), None) => Some(Self::Put(None, wanted)),
            (Some(wanted), Some(object)) => {
                (!is_copy(object, &wanted)).then(|| Self::Put(Some(object.version.clone()), wanted))
            }
        }
    }
}

pub(crate) fn is_copy(object: &Object, (from, labels, body): &Copied) -> bool {
    (object.inherited_from.as_ref(), &object.labels, &object.body) == (Some(from), labels, body)
}

/// The copy that a write makes, without the object that it is of.
fn copied(action: &Action) -> Copied {
    let mut cluster = Cluster::default();
    let (Action::CreateCopy { key, source, content } | Action::ReplaceCopy { key, source, content, .. }) =
        action
    else {
        panic!("no copy is written: {action:?}")
    };
    let create = Action::CreateCopy { key: key.clone(), source: source.clone(), content: content.clone() };
    cluster.perform(&"here".into(), &create).unwrap();
    let object = cluster.objects.into_values().next().unwrap();
    (object.inherited_from.unwrap(), object.labels, object.body)
}

/// Whether `later` keeps the time of every condition in `earlier` that it repeats.
pub(crate) fn keeps_times(earlier: &[Condition], later: &[Condition]) -> bool {
    later.iter().all(|new| {
        let same = |old: &&Condition| (&old.type_, &old.reason) == (&new.type_, &new.reason);
        new.since == earlier.iter().find(same).and_then(|old| old.since.clone())
    })
}

/// Checks what a plan says of a namespace: nothing but what is missing, and all of it.
pub(crate) fn check_report(cluster: &Cluster, name: &Name, report: Option<&Action>) {
    let shown = cluster.hierarchies.get(name);
    let nothing = HierarchyStatus::default();
    let before = shown.map_or(&nothing, |shown| &shown.status);
    let Some(namespace) = cluster.namespaces.get(name) else {
        return assert_eq!(report, None, "{name} is not there");
    };
    let wanted_spec = cluster.wanted_spec(name);
    let said = |status: Option<&HierarchyStatus>| {
        let after = status.unwrap_or(before);
        assert!(cluster.is_right(name, after), "{name}: {report:?}");
        assert!(status.is_none_or(|status| status != before), "{name} says again what it says: {report:?}");
        assert!(keeps_times(&before.conditions, &after.conditions), "{name}: {report:?}");
    };
    match (shown, report) {
        (None, None) => {
            let silent =
                cluster.is_right(name, before) && wanted_spec.is_none() && !cluster.wants_holding(name);
            assert!(silent || namespace.terminating, "{name} lacks a report");
        }
        (None, Some(Action::Dialect(HncAction::CreateHierarchy { spec, with_finalizer, status }))) => {
            assert!(!namespace.terminating, "{name}: {report:?}");
            assert_eq!((spec, *with_finalizer), (&wanted_spec, cluster.wants_holding(name)), "{name}");
            assert!(cluster.is_right(name, status), "{name}: {report:?}");
            assert!(
                spec.is_some() || *with_finalizer || !status.is_empty(),
                "{name}: there is nothing to say"
            );
        }
        (Some(seen), None) => {
            said(None);
            assert!(wanted_spec.is_none() || seen.terminating, "{name} lacks a report");
            let finalizers =
                refinalized(&seen.finalizers, keys::HIERARCHY_FINALIZER, cluster.wants_holding(name));
            assert_eq!(finalizers, None, "{name} lacks a report");
        }
        (
            Some(seen),
            Some(Action::Dialect(HncAction::UpdateHierarchy { version, spec, finalizers, status })),
        ) => {
            assert_eq!(*version, seen.version, "{name}");
            assert_eq!(*spec, wanted_spec.filter(|_| !seen.terminating), "{name}");
            let wanted =
                refinalized(&seen.finalizers, keys::HIERARCHY_FINALIZER, cluster.wants_holding(name));
            assert_eq!(*finalizers, wanted, "{name}");
            said(status.as_ref());
            assert!(spec.is_some() || finalizers.is_some() || status.is_some(), "{name}: nothing is changed");
        }
        _ => panic!("{name}: {report:?} is no report on {shown:?}"),
    }
}
