//! What hierarchy means, written down as plainly as possible: everything is computed from scratch from a [`Cluster`], by
//! looking at all of it. The forest must agree.

use std::collections::{BTreeMap, BTreeSet};

use forest::plan::SubnamespaceSpec;
use forest::{AnchorFact, AnchorState, HierarchyStatus, Labels, Mode, Name, ObjectKey, keys};
use serde_json::{Map, Value};

use crate::cluster::asks::ASKS;
use crate::cluster::{
    Cluster, EXCLUDED, MANAGED_ANNOTATION, MANAGED_LABELS, Object, bindings, quotas, role_key, roles,
};

pub(crate) mod writes;

const TREE: &str = keys::TREE_LABEL;

type Pairs = BTreeMap<String, String>;

/// A condition that should be shown: its reason, and what its message must mention.
pub(crate) type Expected = (&'static str, String);

/// What a copy should be: where it is inherited from, its labels and its body.
pub(crate) type Copied = (Name, BTreeMap<String, String>, Map<String, Value>);

const HALTS: [&str; 5] =
    ["AncestorHaltActivities", "Unreadable", "IllegalParent", "ParentMissing", "InCycle"];

fn managed(name: &str) -> bool {
    name != EXCLUDED
}

fn own((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn pairs(labels: &Labels) -> Pairs {
    labels.iter().map(own).collect()
}

#[derive(Clone, Copy)]
enum What {
    Labels,
    Annotations,
}

impl What {
    fn of<'a>(self, labels: &'a Labels, annotations: &'a Labels) -> &'a Labels {
        match self {
            Self::Labels => labels,
            Self::Annotations => annotations,
        }
    }

    fn is_managed(self, key: &str) -> bool {
        match self {
            Self::Labels => MANAGED_LABELS.contains(&key),
            Self::Annotations => key == MANAGED_ANNOTATION,
        }
    }
}

/// What is to happen to the child of an anchor.
enum Fate {
    None,
    Create,
    Delete,
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
        names.extend(self.anchors.keys().map(|(parent, _)| parent.clone()));
        let parents: Vec<Name> = names.iter().filter_map(|name| self.parent(name)).collect();
        names.extend(parents);
        names
    }

    /// The value of an annotation that is there and not empty.
    fn annotated(&self, name: &str, key: &str) -> Option<&str> {
        self.namespaces.get(name)?.annotations.get(key).filter(|value| !value.is_empty())
    }

    pub(crate) fn is_external(&self, name: &str) -> bool {
        let manager = self.annotated(name, keys::EXTERNALLY_MANAGED_BY);
        managed(name) && manager.is_some_and(|manager| manager != "hnc.x-k8s.io")
    }

    /// The parent that makes this a subnamespace, unless it is going or another tool's.
    pub(crate) fn subnamespace_of(&self, name: &str) -> Option<Name> {
        let stays = self.exists(name) && !self.namespaces[name].terminating && !self.is_external(name);
        self.annotated(name, keys::SUBNAMESPACE_OF).filter(|_| stays).map(Name::from)
    }

    /// The parent in force: an annotation's, then the configured one; of a namespace that is going and has lost its
    /// `HierarchyConfiguration`, the one that its tree labels tell.
    pub(crate) fn parent(&self, name: &str) -> Option<Name> {
        let seen = self.namespaces.get(name).filter(|_| managed(name) && !self.is_external(name))?;
        let labelled = || seen.labels.iter().find(|(key, value)| key.ends_with(TREE) && *value == "1");
        if let Some(parent) = self.subnamespace_of(name) {
            return Some(parent);
        }
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

    /// Whether it has children, and is missing or being deleted.
    pub(crate) fn is_awaited(&self, name: &str) -> bool {
        let is_there = self.namespaces.get(name).is_some_and(|seen| !seen.terminating);
        !is_there && !self.children(name).is_empty()
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
        !self.exists(name) || self.halted_root(name).is_some()
    }

    /// Whether a namespace is being deleted: the API server creates nothing there.
    pub(crate) fn is_ending(&self, name: &str) -> bool {
        self.namespaces.get(name).is_some_and(|seen| seen.terminating)
    }

    /// Whether a copy stays there without its source: a restriction where pods may still run.
    pub(crate) fn outlasts_its_source(&self, name: &str, key: &ObjectKey) -> bool {
        self.is_ending(name) && key.kind == quotas()
    }

    /// Whether an object is left alone because it is being deleted. A copy that gives access does so until it is gone.
    pub(crate) fn is_left_going(key: &ObjectKey, object: &Object) -> bool {
        object.terminating && (object.inherited_from.is_none() || key.kind == quotas())
    }

    /// The namespace and all above it up to the halted root, whose labels reach it.
    fn labelling(&self, name: &str) -> Vec<Name> {
        let mut path = self.ancestry(name);
        if let Some(halted) = self.halted_root(name) {
            let end = path.iter().position(|above| *above == halted).unwrap();
            path.truncate(end + 1);
        }
        path
    }

    /// The managed pairs that one namespace asks for: what its anchor says, or else its configuration, then what is on an
    /// external one.
    fn asked(&self, name: &str, what: What) -> Vec<(String, String)> {
        let spec = match self.anchor_of(name) {
            Some(anchor) => Some(what.of(&anchor.labels, &anchor.annotations)),
            None => self.hierarchies.get(name).map(|seen| what.of(&seen.labels, &seen.annotations)),
        };
        let live = self.namespaces.get(name).filter(|_| self.is_external(name));
        let live = live.map(|seen| what.of(&seen.labels, &seen.annotations));
        let all = spec.into_iter().chain(live).flat_map(Labels::iter);
        let ours = all.filter(|(key, _)| what.is_managed(key));
        ours.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// All that the plans of others may follow from.
    pub(crate) fn structure(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let namespaces: Vec<_> = self
            .namespaces
            .keys()
            .map(|name| (name.clone(), self.namespaces[name].terminating, self.parent(name)))
            .collect();
        let hierarchies: Vec<_> = self
            .hierarchies
            .iter()
            .map(|(name, it)| (name.clone(), it.parent.clone(), it.labels.clone(), it.annotations.clone()))
            .collect();
        let anchors: Vec<_> =
            self.anchors.iter().map(|(at, it)| (at.clone(), it.finalizers.clone())).collect();
        (namespaces, hierarchies, anchors)
    }

    /// The labels and annotations of a namespace that are none of ours.
    pub(crate) fn foreign_marks(&self, name: &str) -> (Pairs, Pairs) {
        let seen = &self.namespaces[name];
        let is_foreign = |key: &String| !key.contains(keys::GROUP);
        let (mut labels, mut annotations) = (pairs(&seen.labels), pairs(&seen.annotations));
        labels.retain(|key, _| is_foreign(key) && !What::Labels.is_managed(key));
        annotations.retain(|key, _| is_foreign(key) && !What::Annotations.is_managed(key));
        (labels, annotations)
    }

    /// What holds for one key at a namespace: the word of the highest. Those above the halted root count, if they are known.
    fn decided(&self, name: &str, what: What) -> Pairs {
        let mut path = self.labelling(name);
        let end = path[path.len() - 1].clone();
        let is_known = match self.own_halt(&end) {
            None | Some(("InCycle", _)) => false,
            Some(_) => true,
        };
        let place = if is_known { self.place(&end) } else { Vec::new() };
        path.extend(place.into_iter().skip(1).filter(|above| self.exists(above)));
        path.iter().flat_map(|above| self.asked(above, what)).collect()
    }

    pub(crate) fn wanted_labels(&self, name: &str) -> Pairs {
        let Some(seen) = self.namespaces.get(name) else { return Pairs::new() };
        let mut labels = pairs(&seen.labels);
        if seen.terminating {
            return labels;
        }
        labels.remove(keys::INCLUDED);
        if name != EXCLUDED {
            labels.remove(keys::EXCLUDED);
        }
        if !managed(name) {
            return labels;
        }
        labels.insert(keys::INCLUDED.into(), "true".into());
        labels.remove(keys::HAS_CHILDREN);
        if !self.children(name).is_empty() || self.anchors.keys().any(|(parent, _)| **parent == *name) {
            labels.insert(keys::HAS_CHILDREN.into(), "true".into());
        }
        if !self.is_external(name) {
            let foreign = &seen.foreign.labels;
            labels.retain(|key, _| {
                !key.ends_with(TREE) && (!What::Labels.is_managed(key) || foreign.contains(&**key))
            });
            labels.extend(self.decided(name, What::Labels));
        }
        labels.extend(self.tree_labels(name));
        labels
    }

    fn tree_labels(&self, name: &str) -> Pairs {
        let path = self.labelling(name);
        let top = &path[path.len() - 1];
        let mut labels = Pairs::new();
        if self.is_external(top) || self.is_orphan(top) {
            let foreign = self.namespaces[top].labels.iter().filter(|(key, _)| key.ends_with(TREE));
            for (key, value) in foreign {
                let Ok(depth) = value.parse::<u128>() else { continue };
                let far = depth + path.len() as u128 - 1;
                if far <= u128::from(u64::MAX) {
                    labels.insert(key.into(), far.to_string());
                }
            }
        }
        for (depth, above) in path.iter().enumerate() {
            labels.insert(format!("{above}{TREE}"), depth.to_string());
        }
        labels
    }

    fn is_orphan(&self, name: &str) -> bool {
        self.exists(name) && self.parent(name).is_some_and(|parent| managed(&parent) && !self.exists(&parent))
    }

    /// Where an orphan belongs: the nearest existing namespace that its tree labels name, with the one above it that they name.
    fn former_place(&self, orphan: &str) -> Option<Name> {
        let parent = self.parent(orphan);
        let labels = self.namespaces[orphan].labels.iter();
        let mut above: Vec<(usize, Name)> = labels
            .filter_map(|(key, depth)| {
                let name: Name = key.strip_suffix(TREE)?.into();
                Some((depth.parse().ok()?, name))
            })
            .filter(|(_, name)| self.exists(name) && **name != *orphan && Some(name) != parent.as_ref())
            .collect();
        above.sort_by_key(|(depth, _)| *depth);
        let above: Vec<Name> = above.into_iter().map(|(_, name)| name).collect();
        let is_above = |at: &usize| {
            let path = self.ancestry(&above[*at]).into_iter().filter(|name| self.exists(name));
            path.collect::<Vec<_>>().starts_with(&above[*at..above.len().min(*at + 2)])
        };
        (0..above.len()).find(is_above).map(|at| above[at].clone())
    }

    /// The namespace and those above it. Above an orphan come those where it belongs.
    pub(crate) fn place(&self, name: &str) -> Vec<Name> {
        let mut path = self.ancestry(name);
        loop {
            let below = path.iter().rev().nth(1).filter(|it| self.is_orphan(it));
            let former = below.and_then(|it| self.former_place(it)).map(|it| self.ancestry(&it));
            let more: Vec<Name> =
                former.into_iter().flatten().filter(|above| !path.contains(above)).collect();
            if more.is_empty() {
                return path;
            }
            path.extend(more);
        }
    }

    pub(crate) fn wanted_annotations(&self, name: &str) -> Pairs {
        let Some(seen) = self.namespaces.get(name) else { return Pairs::new() };
        let mut annotations = pairs(&seen.annotations);
        if managed(name) && !seen.terminating && !self.is_external(name) {
            if !seen.foreign.annotations.contains(MANAGED_ANNOTATION) {
                annotations.remove(MANAGED_ANNOTATION);
            }
            annotations.extend(self.decided(name, What::Annotations));
        }
        annotations
    }

    pub(crate) fn wanted_conditions(&self, name: &str) -> Vec<Expected> {
        if !self.exists(name) {
            return Vec::new();
        }
        let halted = self.halted_root(name).filter(|root| **root != *name);
        let ancestor = halted.map(|root| ("AncestorHaltActivities", format!("{root:?}")));
        let mut conditions: Vec<Expected> = ancestor.into_iter().chain(self.own_halt(name)).collect();
        if let Some(parent) = self.subnamespace_of(name)
            && !self.anchors.contains_key(&(parent.clone(), name.into()))
        {
            conditions.push(("SubnamespaceAnchorMissing", format!("{parent:?}")));
        }
        for (what, reason) in
            [(What::Labels, "IllegalManagedLabel"), (What::Annotations, "IllegalManagedAnnotation")]
        {
            let spec = self.hierarchies.get(name).map(|seen| what.of(&seen.labels, &seen.annotations));
            let illegal = spec.into_iter().flat_map(Labels::iter).find(|(key, _)| !what.is_managed(key));
            conditions.extend(illegal.map(|(key, _)| (reason, key.to_owned())));
        }
        let overridden = [What::Labels, What::Annotations].into_iter().find_map(|what| {
            let decided = self.decided(name, what);
            self.asked(name, what).into_iter().find(|(key, value)| decided[key] != *value)
        });
        conditions.extend(
            overridden.map(|(key, value)| ("OverriddenByAncestor", format!("{key}={value} (ancestor"))),
        );
        let is_concerned =
            |below: &&Name| self.ancestry(below).contains(&name.into()) && !self.in_the_way(below).is_empty();
        let first = self.namespaces.keys().find(is_concerned);
        conditions.extend(first.map(|below| ("CannotPropagateObject", format!("in namespace {below:?}, "))));
        let late = |key: &ObjectKey| {
            let object = self.objects.get(&(name.into(), key.clone()));
            object.is_some_and(|it| it.inherited_from.is_some() && !it.in_force && !it.terminating)
        };
        let late = self.keys().into_iter().find(late).filter(|_| self.rights_wait(name));
        conditions.extend(late.map(|key| ("QuotaNotInForce", format!("{:?}", &*key.name))));
        conditions
    }

    /// Whether a binding that is to bind others here, or is to come, waits.
    fn rights_wait(&self, name: &str) -> bool {
        let gains = |key: &ObjectKey| {
            let object = self.objects.get(&(name.into(), key.clone()));
            let wanted = self.wanted_copy(name, key).filter(|_| self.mode(key) != Mode::Ignore);
            wanted.is_some_and(|(from, _, body)| {
                object.is_none_or(|it| !it.terminating && it.body != body) && self.holds(name, &from)
            })
        };
        let rests = self.is_frozen(name) || self.is_ending(name);
        !rests && self.keys().iter().any(|key| key.kind == bindings() && gains(key))
    }

    /// Whether a status says what it should.
    pub(crate) fn is_right(&self, name: &str, status: &HierarchyStatus) -> bool {
        let children = if self.exists(name) { self.children(name) } else { Vec::new() };
        let wanted = self.wanted_conditions(name);
        status.children == children
            && status.conditions.len() == wanted.len()
            && status.conditions.iter().zip(&wanted).all(|(shown, (reason, mention))| {
                let halts = HALTS.contains(reason);
                *shown.type_ == *(if halts { "ActivitiesHalted" } else { "BadConfiguration" })
                    && *shown.reason == **reason
                    && shown.message.contains(mention)
            })
    }

    /// Whether deleting a namespace may delete what hangs below it: by its own word or that of one above.
    pub(crate) fn allows_cascading(&self, name: &str) -> bool {
        let allows = |name: &str| self.hierarchies.get(name).is_some_and(|it| it.allow_cascading_deletion);
        let in_cycle = self.cycle(name).is_some();
        allows(name) || !in_cycle && self.ancestry(name).iter().any(|above| allows(above))
    }

    pub(crate) fn anchor_state(&self, parent: &str, child: &str) -> AnchorState {
        if !managed(child) {
            AnchorState::Forbidden
        } else if !self.namespaces.contains_key(child) {
            AnchorState::Missing
        } else if self.annotated(child, keys::SUBNAMESPACE_OF) == Some(parent) {
            AnchorState::Ok
        } else {
            AnchorState::Conflict
        }
    }

    /// What should become of an anchor: whether it is to be held, the state to show, and what is to happen to its child.
    fn wanted_anchor(&self, parent: &Name, anchor: &AnchorFact) -> (bool, Option<AnchorState>, Fate) {
        let held = anchor.finalizers.iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
        let conflicts = anchor.state.as_deref() == Some("Conflict");
        let state = match self.anchor_state(parent, &anchor.name) {
            AnchorState::Missing if conflicts => AnchorState::Conflict,
            state => state,
        };
        if !managed(parent) {
            return (false, None, Fate::None);
        }
        if state == AnchorState::Forbidden {
            return (false, Some(state), Fate::None);
        }
        let parent_goes = self.namespaces.get(parent).is_some_and(|seen| seen.terminating);
        let child_goes = self.namespaces.get(&anchor.name).is_some_and(|seen| seen.terminating);
        if parent_goes && state == AnchorState::Ok && child_goes {
            let waits = self.has_pending_anchors(&anchor.name);
            return (
                waits && (held || !anchor.terminating),
                Some(state).filter(|_| !anchor.terminating),
                Fate::None,
            );
        }
        if parent_goes && !anchor.terminating {
            let goes = state == AnchorState::Ok && held && self.allows_cascading(parent);
            return (state == AnchorState::Ok, Some(state), if goes { Fate::Delete } else { Fate::None });
        }
        if !anchor.terminating {
            let stays = self.namespaces.contains_key(parent);
            let comes = state == AnchorState::Missing && stays;
            return (true, Some(state), if comes { Fate::Create } else { Fate::None });
        }
        if state != AnchorState::Ok {
            return (false, None, Fate::None);
        }
        if child_goes {
            return (held, None, Fate::None);
        }
        let may_go = self.children(&anchor.name).is_empty() || self.allows_cascading(&anchor.name);
        if may_go && held { (held, None, Fate::Delete) } else { (false, None, Fate::None) }
    }

    /// Whether an anchor in `name` has our finalizer, or its subnamespace is not being deleted.
    fn has_pending_anchors(&self, name: &str) -> bool {
        self.anchors.iter().filter(|((parent, _), _)| **parent == *name).any(|((_, child), anchor)| {
            let is_ok = self.anchor_state(name, child) == AnchorState::Ok;
            let held = anchor.finalizers.iter().any(|it| **it == *keys::ANCHOR_FINALIZER);
            held || is_ok && !self.namespaces[child].terminating
        })
    }

    /// The anchor of a subnamespace, also of one that is being deleted.
    fn anchor_of(&self, name: &str) -> Option<&AnchorFact> {
        let parent = self.namespaces.get(name)?.annotations.get(keys::SUBNAMESPACE_OF)?;
        let anchor = self.anchors.get(&(parent.into(), name.into()));
        anchor.filter(|_| managed(name) && !self.is_external(name))
    }

    /// What a subnamespace's `HierarchyConfiguration` has to take over, if it does not say it yet.
    fn wanted_spec(&self, name: &str) -> Option<SubnamespaceSpec> {
        let parent = self.subnamespace_of(name)?;
        let anchor = self.anchors.get(&(parent.clone(), name.into()));
        let from_anchor = anchor.map(|anchor| (anchor.labels.clone(), anchor.annotations.clone()));
        let is_said = self.hierarchies.get(name).is_some_and(|seen| {
            let said = (seen.labels.clone(), seen.annotations.clone());
            seen.parent.as_ref() == Some(&parent) && from_anchor.as_ref().is_none_or(|it| *it == said)
        });
        (!is_said).then_some(SubnamespaceSpec { parent, from_anchor })
    }

    /// Whether the `HierarchyConfiguration` in `name` is to bear our finalizer.
    pub(crate) fn wants_holding(&self, name: &str) -> bool {
        let has_anchors = self.anchors.keys().any(|(parent, _)| **parent == *name);
        let goes = self.hierarchies.get(name).is_some_and(|seen| seen.terminating);
        let wanted = match self.namespaces.get(name) {
            Some(seen) if seen.terminating => self.has_pending_anchors(name),
            Some(_) => has_anchors && !goes,
            None => has_anchors,
        };
        managed(name) && wanted
    }

    /// Whether a copy has lost its source with its namespace, or is a binding and has lost its source, and is to go although it is
    /// frozen.
    pub(crate) fn is_forsaken(&self, name: &str, key: &ObjectKey, object: &Object) -> bool {
        let place = |from: &Name| (from.clone(), key.clone());
        let is_empty =
            |from: &Name| key.kind == bindings() && managed(from) && !self.objects.contains_key(&place(from));
        let from = object.inherited_from.as_ref();
        let root = self.halted_root(name);
        let halt = root.as_ref().and_then(|root| self.own_halt(root));
        let parent_exists = || {
            let parent = root.as_ref().and_then(|root| self.parent(root));
            parent.is_some_and(|parent| self.namespaces.contains_key(&parent))
        };
        let is_missing =
            |reason: &str| reason == "ParentMissing" || (reason == "IllegalParent" && !parent_exists());
        self.exists(name)
            && !self.outlasts_its_source(name, key)
            && halt.is_some_and(|(reason, _)| is_missing(reason))
            && from.is_some_and(|from| !self.namespaces.contains_key(from) || is_empty(from))
    }

    /// The source that an object in `name` should be a copy of: the top-most eligible.
    pub(crate) fn source(&self, name: &str, key: &ObjectKey) -> Option<(Name, &Object)> {
        let above = self.ancestry(name).into_iter().skip(1).collect::<Vec<_>>();
        above.into_iter().rev().find_map(|from| {
            let object = self.objects.get(&(from.clone(), key.clone()))?;
            let goes = object.inherited_from.is_none() && !object.excluded && self.goes(key, object, name);
            (goes && self.finds_its_role(key, object, &from, name)).then_some((from, object))
        })
    }

    /// The namespace of the Role that everybody means by this name in `name`, when nothing is left to be written.
    pub(crate) fn role_meant(&self, name: &str, role: &ObjectKey) -> Option<Name> {
        if let Some((from, _)) = self.source(name, role).filter(|_| !self.is_kept(name, role)) {
            return Some(from);
        }
        let own = self.objects.get(&(name.into(), role.clone()))?;
        own.inherited_from.is_none().then(|| name.into())
    }

    /// Whether a binding from `from` that refers to a Role would mean the same one in `to`.
    fn finds_its_role(&self, key: &ObjectKey, binding: &Object, from: &str, to: &str) -> bool {
        let Some(role) = binding.role().filter(|_| key.kind == bindings()).map(role_key) else { return true };
        let meant = self.role_meant(from, &role);
        let stuck = self.objects.get(&(to.into(), role.clone())).is_some_and(|there| {
            let right = self.wanted_copy(to, &role).is_some_and(|wanted| writes::is_copy(there, &wanted));
            there.terminating && !right
        });
        meant.is_some() && meant == self.role_meant(to, &role) && !stuck
    }

    pub(crate) fn mode(&self, key: &ObjectKey) -> Mode {
        if let Some((mode, _)) = self.configured.get(&key.kind) {
            return *mode;
        }
        if key.kind == quotas() {
            return Mode::Propagate;
        }
        self.modes[usize::from(key.kind == bindings())]
    }

    /// Whether no user may gain a right from `from`: a quota from there or above is missing or another, or not in force. What claims
    /// to be from elsewhere counts too.
    pub(crate) fn holds(&self, name: &str, from: &Name) -> bool {
        let further_down: Vec<Name> = self.ancestry(name).into_iter().take_while(|it| it != from).collect();
        let counts = |source: &Name| !further_down.contains(source);
        let awaited = |key: &ObjectKey| {
            let object = self.objects.get(&(name.into(), key.clone()));
            let late = object.filter(|it| !it.terminating && !it.in_force);
            let late = late.and_then(|it| it.inherited_from.clone()).is_some_and(|source| counts(&source));
            let wanted = self.wanted_copy(name, key).filter(|(source, _, _)| counts(source));
            late || wanted.is_some_and(|it| object.is_none_or(|object| !writes::is_copy(object, &it)))
        };
        !self.is_ending(name) && self.keys().iter().any(|key| key.kind == quotas() && awaited(key))
    }

    /// Whether a role in a namespace will allow something else, or goes.
    pub(crate) fn changes_roles(&self, name: &str) -> bool {
        let is_treated = |key: &&ObjectKey| key.kind == roles() && self.mode(key) != Mode::Ignore;
        self.keys().iter().filter(is_treated).any(|key| {
            let object = self.objects.get(&(name.into(), key.clone()));
            let wanted = self.wanted_copy(name, key);
            match (wanted, object) {
                (_, Some(object)) if Self::is_left_going(key, object) => false,
                (Some((_, _, body)), Some(object)) => object.body != body,
                (wanted, object) => wanted.is_some() || object.is_some_and(|it| it.inherited_from.is_some()),
            }
        })
    }

    /// Whether a source goes to a namespace below, as far as its kind and what it asks for have a say.
    fn goes(&self, key: &ObjectKey, source: &Object, to: &str) -> bool {
        let asked = (ASKS[source.asks].goes)(&self.wanted_labels(to));
        match self.mode(key) {
            Mode::Propagate => asked != Some(false),
            Mode::AllowPropagate => asked == Some(true),
            Mode::Remove | Mode::Ignore => false,
        }
    }

    /// Whether a user's own object exists that nothing may replace.
    pub(crate) fn is_kept(&self, name: &str, key: &ObjectKey) -> bool {
        let own = self.objects.get(&(name.into(), key.clone())).is_some_and(|it| it.inherited_from.is_none());
        own && !self.overwrites(key)
    }

    /// Whether own objects of this kind are replaced.
    pub(crate) fn overwrites(&self, key: &ObjectKey) -> bool {
        let configured = self.configured.get(&key.kind).map(|(_, overwrites)| *overwrites);
        configured
            .unwrap_or_else(|| key.kind == quotas() || self.overwrites[usize::from(key.kind == bindings())])
    }

    /// The own objects that are kept although a source from above should be in their place.
    pub(crate) fn in_the_way(&self, name: &str) -> BTreeSet<ObjectKey> {
        let stays = |key: &ObjectKey| {
            let terminating = self.objects.get(&(name.into(), key.clone())).is_some_and(|it| it.terminating);
            self.is_kept(name, key) && !terminating && self.source(name, key).is_some()
        };
        let rests = self.is_frozen(name) || self.is_ending(name);
        if rests { BTreeSet::new() } else { self.keys().into_iter().filter(stays).collect() }
    }

    /// What the object should be as a copy, if it should be one.
    pub(crate) fn wanted_copy(&self, name: &str, key: &ObjectKey) -> Option<Copied> {
        let is_there = self.objects.contains_key(&(name.into(), key.clone()));
        if self.is_kept(name, key) || self.is_ending(name) && !is_there {
            return None;
        }
        let (from, source) = self.source(name, key)?;
        let mut labels = source.labels.clone();
        labels.insert("app.kubernetes.io/managed-by".into(), "hnc.x-k8s.io".into());
        Some((from, labels, source.body.clone()))
    }

    pub(crate) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.objects.keys().map(|(_, key)| key.clone()).collect()
    }
}
