//! What hierarchy means, written down as plainly as possible: everything is computed from scratch from a [`Cluster`], by
//! looking at all of it. The forest must agree.

use std::collections::{BTreeMap, BTreeSet};

use forest::plan::{Action, Plan};
use forest::{Condition, HierarchyStatus, Name, ObjectKey, Version};
use serde_json::{Map, Value};

use crate::cluster::{Cluster, EXCLUDED, Object};

const INCLUDED: &str = "hnc.x-k8s.io/included-namespace";
const TREE: &str = ".tree.hnc.x-k8s.io/depth";

/// A condition that should be shown: its reason, and what its message must mention.
pub(crate) type Expected = (&'static str, String);

/// What a copy should be: where it is inherited from, its labels and its body.
pub(crate) type Copied = (Name, BTreeMap<String, String>, Map<String, Value>);

fn managed(name: &str) -> bool {
    name != EXCLUDED
}

impl Cluster {
    pub(crate) fn exists(&self, name: &str) -> bool {
        managed(name) && self.namespaces.contains_key(name)
    }

    /// Every name that something is known of.
    pub(crate) fn mentioned(&self) -> BTreeSet<Name> {
        let mut names: BTreeSet<Name> = self.namespaces.keys().cloned().collect();
        names.extend(self.hierarchies.keys().cloned());
        names.extend(self.objects.keys().map(|(namespace, _)| namespace.clone()));
        let parents: Vec<Name> = names.iter().filter_map(|name| self.parent(name)).collect();
        names.extend(parents);
        names
    }

    /// The configured parent; of a namespace that is going and has lost its `HierarchyConfiguration`, the one that its tree
    /// labels tell.
    pub(crate) fn parent(&self, name: &str) -> Option<Name> {
        let seen = self.namespaces.get(name).filter(|_| managed(name))?;
        let labelled = || seen.labels.iter().find(|(key, value)| key.ends_with(TREE) && *value == "1");
        match self.hierarchies.get(name) {
            Some(hierarchy) => hierarchy.parent.clone().filter(|parent| !parent.is_empty()),
            None if seen.terminating => labelled().map(|(key, _)| key.trim_end_matches(TREE).into()),
            None => None,
        }
    }

    pub(crate) fn children(&self, name: &str) -> Vec<Name> {
        let child_of = |child: &&Name| self.parent(child).is_some_and(|parent| *parent == *name);
        self.namespaces.keys().filter(child_of).cloned().collect()
    }

    pub(crate) fn ancestry(&self, name: &str) -> Vec<Name> {
        let mut path = vec![Name::from(name)];
        while let Some(parent) = self.parent(&path[path.len() - 1]) {
            if path.contains(&parent) {
                break;
            }
            path.push(parent);
        }
        path
    }

    pub(crate) fn cycle(&self, name: &str) -> Option<Vec<Name>> {
        let path = self.ancestry(name);
        if self.parent(&path[path.len() - 1])? != path[0] {
            return None;
        }
        let smallest = path.iter().min().cloned()?;
        let mut upwards = self.ancestry(&smallest);
        upwards.push(smallest);
        upwards.reverse();
        Some(upwards)
    }

    fn own_halt(&self, name: &str) -> Option<Expected> {
        if !self.exists(name) {
            return None;
        }
        if let Some(why) = self.hierarchies.get(name).and_then(|seen| seen.unreadable.as_ref()) {
            return Some(("Unreadable", why.to_string()));
        }
        let parent = self.parent(name)?;
        if !managed(&parent) {
            Some(("IllegalParent", format!("{parent:?}")))
        } else if !self.exists(&parent) {
            Some(("ParentMissing", format!("{parent:?}")))
        } else {
            self.cycle(name).map(|members| ("InCycle", members.join(" <- ")))
        }
    }

    pub(crate) fn halted_root(&self, name: &str) -> Option<Name> {
        self.ancestry(name).into_iter().find(|above| self.own_halt(above).is_some())
    }

    /// Whether the objects in a namespace are to be left as they are.
    pub(crate) fn is_frozen(&self, name: &str) -> bool {
        !self.exists(name) || self.namespaces[name].terminating || self.halted_root(name).is_some()
    }

    pub(crate) fn wanted_labels(&self, name: &str) -> BTreeMap<String, String> {
        let Some(seen) = self.namespaces.get(name) else { return BTreeMap::new() };
        let mut labels: BTreeMap<String, String> =
            seen.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        if seen.terminating {
            return labels;
        }
        labels.remove(INCLUDED);
        if !managed(name) {
            return labels;
        }
        labels.retain(|key, _| !key.ends_with(TREE));
        labels.insert(INCLUDED.into(), "true".into());
        let halted = self.halted_root(name);
        for (depth, above) in self.ancestry(name).into_iter().enumerate() {
            labels.insert(format!("{above}{TREE}"), depth.to_string());
            if halted.as_ref() == Some(&above) {
                break;
            }
        }
        labels
    }

    pub(crate) fn wanted_conditions(&self, name: &str) -> Vec<Expected> {
        let halted = self.halted_root(name).filter(|root| **root != *name && self.exists(name));
        let ancestor = halted.map(|root| ("AncestorHaltActivities", format!("{root:?}")));
        ancestor.into_iter().chain(self.own_halt(name)).collect()
    }

    /// Whether a status says what it should.
    pub(crate) fn is_right(&self, name: &str, status: &HierarchyStatus) -> bool {
        let children = if self.exists(name) { self.children(name) } else { Vec::new() };
        let wanted = self.wanted_conditions(name);
        status.children == children
            && status.conditions.len() == wanted.len()
            && status.conditions.iter().zip(&wanted).all(|(shown, (reason, mention))| {
                *shown.type_ == *"ActivitiesHalted"
                    && *shown.reason == **reason
                    && shown.message.contains(mention)
            })
    }

    /// The source that an object in `name` should be a copy of: the top-most eligible.
    pub(crate) fn source(&self, name: &str, key: &ObjectKey) -> Option<(Name, &Object)> {
        let above = self.ancestry(name).into_iter().skip(1).collect::<Vec<_>>();
        above.into_iter().rev().find_map(|from| {
            let object = self.objects.get(&(from.clone(), key.clone()))?;
            (object.inherited_from.is_none() && !object.excluded).then_some((from, object))
        })
    }

    /// What the object should be as a copy, if it should be one.
    pub(crate) fn wanted_copy(&self, name: &str, key: &ObjectKey) -> Option<Copied> {
        let (from, source) = self.source(name, key)?;
        let mut labels = source.labels.clone();
        labels.insert("app.kubernetes.io/managed-by".into(), "hnc.x-k8s.io".into());
        Some((from, labels, source.body.clone()))
    }

    pub(crate) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.objects.keys().map(|(_, key)| key.clone()).collect()
    }
}

/// What a plan comes to, whatever its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Writes {
    pub(crate) labels: BTreeMap<String, Option<String>>,
    pub(crate) objects: BTreeMap<ObjectKey, Write>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    Put(Option<Version>, Copied),
    Delete(Version),
}

impl Writes {
    /// What should be written in `name`.
    pub(crate) fn wanted(cluster: &Cluster, name: &Name) -> Self {
        let mut writes = Self::default();
        if let Some(seen) = cluster.namespaces.get(name) {
            let wanted = cluster.wanted_labels(name);
            let gone = seen.labels.iter().filter(|(key, _)| !wanted.contains_key(*key));
            writes.labels.extend(gone.map(|(key, _)| (key.to_owned(), None)));
            let set = wanted.into_iter().filter(|(key, value)| seen.labels.get(key) != Some(value));
            writes.labels.extend(set.map(|(key, value)| (key, Some(value))));
        }
        if !cluster.is_frozen(name) {
            let keys = cluster.keys().into_iter();
            writes
                .objects
                .extend(keys.filter_map(|key| Some((key.clone(), Write::wanted(cluster, name, &key)?))));
        }
        writes
    }

    /// What `plan` writes in `name`. Deleted and created again counts as replaced.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut writes = Self::default();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            match action {
                Action::Label { set, remove, .. } => {
                    writes.labels.extend(remove.iter().map(|key| (key.clone(), None)));
                    writes.labels.extend(set.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
                }
                Action::Create { key, .. } | Action::Replace { key, .. } => {
                    let copied = copied(action);
                    let before = match (action, writes.objects.remove(key)) {
                        (Action::Replace { version, .. }, None) => Some(version.clone()),
                        (Action::Create { .. }, Some(Write::Delete(version))) => Some(version),
                        (Action::Create { .. }, None) => None,
                        (_, earlier) => panic!("{key:?} is written twice: {earlier:?}, {action:?}"),
                    };
                    writes.objects.insert(key.clone(), Write::Put(before, copied));
                }
                Action::Delete { key, version } => {
                    let earlier = writes.objects.insert(key.clone(), Write::Delete(version.clone()));
                    assert_eq!(earlier, None, "{key:?} is written and then deleted");
                }
                Action::CreateHierarchy(_) | Action::ReportStatus { .. } => {
                    panic!("a status is a step of its own: {action:?}")
                }
            }
        }
        writes
    }
}

impl Write {
    fn wanted(cluster: &Cluster, name: &Name, key: &ObjectKey) -> Option<Self> {
        let object = cluster.objects.get(&(name.clone(), key.clone()));
        if object.is_some_and(|object| object.terminating) {
            return None;
        }
        match (cluster.wanted_copy(name, key), object) {
            (None, None) => None,
            (None, Some(object)) => {
                object.inherited_from.is_some().then(|| Self::Delete(object.version.clone()))
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
    let (Action::Create { key, source, content } | Action::Replace { key, source, content, .. }) = action
    else {
        panic!("no copy is written: {action:?}")
    };
    let create = Action::Create { key: key.clone(), source: source.clone(), content: content.clone() };
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
