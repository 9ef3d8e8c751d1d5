//! What a preview foretells against what then happens to a cluster on paper, where plans are made and carried out until nothing
//! is left to do: every object, label and condition.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/cluster.rs"]
mod cluster;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/naive.rs"]
mod naive;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "support/op.rs"]
mod op;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use forest::plan::plan;
use forest::preview::{Effect, Intent, Outcome, Preview};
use forest::rules::User;
use forest::{Canonical, Mode, Name, ObjectKey, Scope, keys};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::cluster::{Cluster, note_conflicts};
use crate::op::{NAMES, Op, config, object_op, subnamespace_op};

/// A user's change of a settled cluster.
#[derive(Debug, Clone)]
enum UserChange {
    SetHierarchy(usize, Option<usize>, bool),
    DeleteNamespace(usize),
    Annotate(usize, Option<usize>),
    CreateAnchor(usize, usize),
    DeleteAnchor(u8),
    /// And whether own objects are overwritten.
    SetModes(Mode, Mode, bool),
}

fn change() -> impl Strategy<Value = UserChange> {
    let at = || 0..NAMES.len() - 1;
    let to = || prop::option::weighted(0.8, 0..NAMES.len() - 1);
    let mode = || {
        let all = [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore];
        prop::sample::select(all.to_vec())
    };
    prop_oneof![
        6 => (at(), to(), any::<bool>()).prop_map(|(at, to, allow)| UserChange::SetHierarchy(at, to, allow)),
        4 => at().prop_map(UserChange::DeleteNamespace),
        3 => (at(), to()).prop_map(|(at, to)| UserChange::Annotate(at, to)),
        2 => (at(), at()).prop_map(|(at, child)| UserChange::CreateAnchor(at, child)),
        3 => any::<u8>().prop_map(UserChange::DeleteAnchor),
        4 => (mode(), mode(), any::<bool>())
            .prop_map(|(roles, bindings, overwrites)| UserChange::SetModes(roles, bindings, overwrites)),
    ]
}

fn story() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<Op>, UserChange)> {
    let parents: Vec<_> = (0..NAMES.len() - 1)
        .map(|at| prop::option::weighted(0.7, 0..at.max(1)).prop_map(move |it| it.filter(|it| *it < at)))
        .collect();
    let ops = prop::collection::vec(prop_oneof![4 => object_op(), 2 => subnamespace_op()], 16..48);
    (parents, ops, change())
}

fn begin(parents: &[Option<usize>], ops: &[Op]) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, parent) in NAMES.iter().zip(parents.iter().chain([&None])) {
        cluster.namespace(name);
        if let Some(parent) = parent {
            cluster.set_parent(name, Some(NAMES[*parent]));
        }
    }
    for op in ops {
        op.perform(&mut cluster);
    }
    cluster
}

/// Ours, the controller of quotas and the namespace controller, which sees to `going` and all that goes because of it.
fn settle(cluster: &mut Cluster, stuck: &BTreeSet<Name>) {
    for _ in 0..100 {
        let mut found = !cluster.enforce().is_empty();
        let mut forest = cluster.forest();
        note_conflicts(&mut forest);
        for name in cluster.mentioned() {
            let plan = plan(&forest, &name, &Scope::whole());
            for action in plan.actions() {
                found = true;
                // What a write before has changed is planned again.
                let _ = cluster.perform(&name, action);
            }
        }
        if found {
            continue;
        }
        let going: Vec<Name> = cluster.mentioned().into_iter().filter(|it| !stuck.contains(it)).collect();
        let emptied = going.iter().fold(false, |found, name| cluster.empty(name) | found);
        if !emptied && !going.iter().fold(false, |found, name| cluster.remove_if_empty(name) | found) {
            return;
        }
    }
    unreachable!("no rest: {cluster:#?}");
}

impl UserChange {
    fn intent(&self, cluster: &Cluster) -> Option<Intent> {
        let name = |at: usize| Name::from(NAMES[at]);
        let there = |at: usize| cluster.namespaces.get(&name(at)).is_some_and(|seen| !seen.terminating);
        Some(match *self {
            Self::SetHierarchy(at, parent, allow_cascading_deletion) => {
                // What cannot be read is written anew, and so was readable.
                cluster.hierarchies.get(&name(at)).is_none_or(|it| it.unreadable.is_none()).then_some(())?;
                let parent = parent.map(name);
                Intent::SetHierarchy { namespace: name(at), parent, allow_cascading_deletion }
            }
            Self::DeleteNamespace(at) if there(at) => Intent::DeleteNamespace { name: name(at) },
            Self::Annotate(at, to) if there(at) => {
                Intent::Annotate { namespace: name(at), subnamespace_of: to.map(name) }
            }
            Self::CreateAnchor(at, child)
                if there(at) && !cluster.anchors.contains_key(&(name(at), name(child))) =>
            {
                let none = forest::Labels::default();
                let (parent, child) = (name(at), name(child));
                Intent::CreateAnchor { parent, child, labels: none.clone(), annotations: none }
            }
            Self::DeleteAnchor(which) => {
                let at = usize::from(which).checked_rem(cluster.anchors.len())?;
                let (parent, child) = cluster.anchors.keys().nth(at).cloned()?;
                Intent::DeleteAnchor { parent, child }
            }
            _ => return None,
        })
    }

    /// Does the same on paper.
    fn happen(&self, intent: Option<&Intent>, cluster: &mut Cluster) {
        match intent {
            Some(Intent::SetHierarchy { namespace, parent, allow_cascading_deletion }) => {
                cluster.change_hierarchy(namespace, |seen| {
                    seen.parent.clone_from(parent);
                    seen.allow_cascading_deletion = *allow_cascading_deletion;
                });
            }
            Some(Intent::DeleteNamespace { name }) => drop(cluster.terminate(name)),
            Some(Intent::Annotate { namespace, subnamespace_of }) => {
                cluster.change_namespace(namespace, |seen| {
                    let others = seen.annotations.iter().filter(|(key, _)| *key != keys::SUBNAMESPACE_OF);
                    let ours = subnamespace_of.as_deref().map(|of| (keys::SUBNAMESPACE_OF, of));
                    seen.annotations = others.chain(ours).collect();
                });
            }
            Some(Intent::CreateAnchor { parent, child, .. }) => drop(cluster.anchor(parent, child)),
            Some(Intent::DeleteAnchor { parent, child }) => drop(cluster.delete_anchor(parent, child)),
            Some(Intent::Configure { .. }) => unreachable!("the modes are set below"),
            Some(
                Intent::Label { .. } | Intent::CreateSubNamespace { .. } | Intent::DeleteSubNamespace { .. },
            ) => {
                unreachable!("these are Accurate's")
            }
            None => {
                if let Self::SetModes(roles, bindings, overwrites) = *self {
                    (cluster.modes, cluster.overwrites) = ([roles, bindings], [overwrites; 2]);
                }
            }
        }
    }
}

/// All of a cluster that a preview is about, by place; what is as it was is left out of a comparison.
type Picture = BTreeMap<String, String>;

fn is_ours(key: &str) -> bool {
    key.contains("hnc.x-k8s.io")
        || cluster::MANAGED_LABELS.contains(&key)
        || key == cluster::MANAGED_ANNOTATION
}

fn picture(cluster: &Cluster) -> Picture {
    let mut picture = Picture::new();
    for (name, seen) in &cluster.namespaces {
        picture.insert(format!("namespace {name}"), format!("{} {}", seen.version.uid, seen.terminating));
        let parent = cluster.parent(name);
        picture.extend(parent.map(|parent| (format!("parent of {name}"), parent.to_string())));
        let pairs = seen.labels.iter().chain(seen.annotations.iter()).filter(|(key, _)| is_ours(key));
        picture.extend(pairs.map(|(key, value)| (format!("{key} of {name}"), value.to_owned())));
        let shown = cluster.hierarchies.get(name).map(|it| &it.status.conditions).into_iter().flatten();
        picture.extend(shown.map(|it| (format!("{} of {name}: {}", it.reason, it.message), String::new())));
    }
    for (parent, child) in cluster.anchors.keys() {
        picture.insert(format!("anchor {child} in {parent}"), String::new());
    }
    for ((namespace, key), object) in &cluster.objects {
        let content = Canonical::new(object.labels.clone(), BTreeMap::new(), object.body.clone());
        let content = if object.inherited_from.is_none() { content.as_copy() } else { content };
        let state = (&object.version.uid, &object.inherited_from, Some(content.digest()));
        picture.insert(format!("{key:?} in {namespace}"), format!("{state:?}"));
    }
    picture
}

/// The same of an outcome, before and after.
fn foretold(outcome: &Outcome) -> (Picture, Picture) {
    let (mut before, mut after) = (Picture::new(), Picture::new());
    for change in &outcome.namespaces {
        let name = &change.name;
        for (state, picture) in [(&change.before, &mut before), (&change.after, &mut after)] {
            let Some(state) = state else { continue };
            picture.insert(format!("namespace {name}"), format!("{} {}", state.uid, state.terminating));
            let parent = state.parent.as_ref();
            picture.extend(parent.map(|parent| (format!("parent of {name}"), parent.to_string())));
            let pairs = state.labels.iter().chain(state.annotations.iter()).filter(|(key, _)| is_ours(key));
            picture.extend(pairs.map(|(key, value)| (format!("{key} of {name}"), value.to_owned())));
            let shown = state.conditions.iter();
            picture
                .extend(shown.map(|it| (format!("{} of {name}: {}", it.reason, it.message), String::new())));
        }
    }
    for change in &outcome.anchors {
        let picture = if change.is_there { &mut after } else { &mut before };
        picture.insert(format!("anchor {} in {}", change.child, change.parent), String::new());
    }
    for change in &outcome.objects {
        let place = format!("{:?} in {}", change.key, change.namespace);
        for (state, picture) in [(&change.before, &mut before), (&change.after, &mut after)] {
            let state = state.as_ref().map(|it| (&it.uid, &it.inherited_from, it.digest));
            picture.extend(state.map(|state| (place.clone(), format!("{state:?}"))));
        }
    }
    (before, after)
}

/// What differs between two pictures. The uids of what is new are made up in one of them.
fn difference(before: &Picture, after: &Picture) -> BTreeMap<String, (Option<String>, Option<String>)> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let all = keys.into_iter().map(|key| (key.clone(), (before.get(key).cloned(), after.get(key).cloned())));
    let differing = all.filter(|(_, (before, after))| before != after);
    differing.map(|(key, (before, after))| (key, (before, after.map(|it| unnamed(&it))))).collect()
}

fn unnamed(state: &str) -> String {
    let made_up = |word: &str| word.trim_matches(['(', '"', ',']).starts_with("planned-");
    let words = state.split(' ').map(|word| if made_up(word) { "NEW" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Uids of the cluster that were not there before are new.
fn renamed(after: Picture, uids: &BTreeSet<String>) -> Picture {
    let is_new = |word: &str| {
        let word = word.trim_matches(['(', '"', ',']);
        word.starts_with("uid-") && !uids.contains(word)
    };
    let rename = |state: String| {
        let words = state.split(' ').map(|word| if is_new(word) { "NEW" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    after.into_iter().map(|(key, state)| (key, rename(state))).collect()
}

fn uids(cluster: &Cluster) -> BTreeSet<String> {
    let namespaces = cluster.namespaces.values().map(|it| it.version.uid.to_string());
    namespaces.chain(cluster.objects.values().map(|it| it.version.uid.to_string())).collect()
}

/// Settles, reading what is wanted from the cluster.
fn settle_preview(preview: &mut Preview, cluster: &Cluster) {
    for _ in 0..10 {
        let wants = preview.settle();
        assert!(wants.kinds.is_empty(), "{wants:?}");
        if wants.is_empty() {
            assert!(!preview.is_restless());
            return;
        }
        for (name, key) in wants.content {
            preview.tell(cluster.object_fact(&name, &key));
        }
    }
    unreachable!("read in vain");
}

/// How often something was foretold.
#[derive(Debug, Default)]
struct Counts {
    changes: Cell<usize>,
    without_effect: Cell<usize>,
    namespaces: Cell<usize>,
    anchors: Cell<usize>,
    objects: Cell<usize>,
    overwritten: Cell<usize>,
    kept: Cell<usize>,
}

impl Counts {
    fn count(&self, outcome: &Outcome) {
        let add = |cell: &Cell<usize>, more: usize| cell.set(cell.get() + more);
        add(&self.changes, 1);
        add(&self.without_effect, usize::from(outcome.is_empty()));
        add(&self.namespaces, outcome.namespaces.len());
        add(&self.anchors, outcome.anchors.len());
        add(&self.objects, outcome.objects.len());
        let overwritten = outcome.objects.iter().filter(|it| it.effect() == Effect::Overwrite);
        add(&self.overwritten, overwritten.count());
        add(&self.kept, outcome.kept.len());
    }
}

/// What has been foretold against what has become of `before`.
fn compare(outcome: &Outcome, (before, uids): (&Picture, &BTreeSet<String>), cluster: &Cluster, what: &str) {
    let happened = difference(before, &renamed(picture(cluster), uids));
    let (old, new) = foretold(outcome);
    assert_eq!(difference(&old, &new), happened, "{what}");
}

fn check(parents: &[Option<usize>], ops: &[Op], change: &UserChange, seen: &Counts) {
    let mut cluster = begin(parents, ops);
    let going = cluster.namespaces.values().filter(|it| it.terminating);
    let stuck: BTreeSet<Name> = going.map(|it| it.name.clone()).collect();
    let before = (picture(&cluster), uids(&cluster));
    let mut preview = Preview::new(cluster.forest());
    settle_preview(&mut preview, &cluster);
    settle(&mut cluster, &stuck);
    compare(&preview.outcome(), (&before.0, &before.1), &cluster, "what is under way");

    let before = (picture(&cluster), uids(&cluster));
    let kept_before = kept(&cluster);
    let mut preview = Preview::new(cluster.forest());
    settle_preview(&mut preview, &cluster);
    preview.mark();
    assert!(preview.outcome().is_empty(), "nothing is under way: {:#?}", preview.outcome());
    let intent = change.intent(&cluster);
    match (&intent, change) {
        (Some(intent), _) => preview.change(intent, &User::default()),
        (None, UserChange::SetModes(..)) => {
            let mut other = cluster.clone();
            change.happen(None, &mut other);
            preview.tell(other.configuration());
        }
        (None, _) => return,
    }
    settle_preview(&mut preview, &cluster);
    change.happen(intent.as_ref(), &mut cluster);
    settle(&mut cluster, &stuck);
    compare(&preview.outcome(), (&before.0, &before.1), &cluster, &format!("{change:?}"));
    let new: BTreeSet<_> = kept(&cluster).difference(&kept_before).cloned().collect();
    let foretold = preview.outcome().kept.into_iter().map(|it| (it.namespace, it.key));
    assert_eq!(foretold.collect::<BTreeSet<_>>(), new, "{change:?}");
    seen.count(&preview.outcome());
}

fn kept(cluster: &Cluster) -> BTreeSet<(Name, ObjectKey)> {
    let of = |name: Name| cluster.in_the_way(&name).into_iter().map(move |key| (name.clone(), key));
    cluster.mentioned().into_iter().flat_map(of).collect()
}

#[test]
fn what_is_foretold_is_what_happens() {
    let seen = Counts::default();
    let run = TestRunner::new(config(256)).run(&story(), |(parents, ops, change)| {
        check(&parents, &ops, &change, &seen);
        Ok(())
    });
    println!("{seen:?}");
    run.unwrap();
    for (what, number) in [
        ("changes", &seen.changes),
        ("namespaces", &seen.namespaces),
        ("anchors", &seen.anchors),
        ("objects", &seen.objects),
        ("overwritten", &seen.overwritten),
        ("kept", &seen.kept),
    ] {
        assert!(number.get() > 0, "no {what} at all");
    }
}
