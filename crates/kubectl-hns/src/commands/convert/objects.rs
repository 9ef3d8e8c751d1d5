//! What a tree that passes to HNC's hierarchy would spread or lose: HNC copies by kind, and to everything below; Accurate copies what an
//! annotation names. HNC's own rules are asked about the tree as it will be.

use std::collections::{BTreeMap, BTreeSet};

use forest::exceptions::Withheld;
use forest::why::{KindInConfiguration, ObjectExplanation, ObjectQuestion, There, below};
use forest::{Fact, Forest, HopMode, Kind, KindId, KindSettings, Mode, Name, ObjectFact, ObjectKey};

use crate::Failure;
use crate::configured_kinds::ConfiguredKinds;
use crate::lines::first;

/// How many objects a message names; it counts the rest.
const NAMED: usize = 20;

/// Objects as `resource NAMESPACE/NAME`, with what is to be said of each.
type Objects = BTreeSet<String>;

/// All that is in the way of a conversion.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// What HNC copies without an annotation that asks for it, and Accurate does not.
    spreads: Objects,
    /// What Accurate copies, and HNC does not: its kind is not configured so, or it must opt in.
    unasked: Objects,
    /// The same for bindings, because of their Roles.
    unbound: Objects,
    /// The same for any other reason.
    withheld: Objects,
    /// Users' own objects where HNC would copy another of their name to.
    own: Objects,
    /// Copies that were created once, in such a place.
    once: Objects,
    /// How many copies were created once. They stay as they are.
    pub(super) stays: usize,
}

impl Findings {
    /// What is found among the objects of a tree. `forest` has the tree as it will be, and its kinds.
    pub(super) fn of(mut forest: Forest, objects: Vec<(KindId, Vec<ObjectFact>)>) -> Self {
        let mut all: BTreeMap<ObjectKey, Vec<ObjectFact>> = BTreeMap::new();
        for (kind, facts) in objects {
            // HNC's copies replace the copies in mode update, or they go.
            let left = facts.iter().filter(|it| !is_copied(it) || mode(it) != Some(HopMode::Update));
            forest.apply(Fact::Objects(kind, left.cloned().collect()));
            for fact in facts {
                all.entry(ObjectKey { kind, name: fact.name.clone() }).or_default().push(fact);
            }
        }
        let mut found = Self::default();
        for (key, facts) in &all {
            let copies = facts.iter().filter(|it| is_copied(it));
            let copies: BTreeMap<&Name, _> = copies.map(|it| (&it.namespace, mode(it))).collect();
            found.stays += copies.values().filter(|mode| **mode == Some(HopMode::Create)).count();
            for source in facts.iter().filter(|it| !is_copied(it) && it.inherited_from.is_none()) {
                found.add(&forest, (key, source), &copies);
            }
        }
        found
    }

    /// `copies` has the modes of Accurate's copies of that name.
    fn add(
        &mut self,
        forest: &Forest,
        (key, source): (&ObjectKey, &ObjectFact),
        copies: &BTreeMap<&Name, Option<HopMode>>,
    ) {
        let resource = forest.kind(key.kind).group_resource();
        let shown = |namespace: &Name| format!("{resource} {namespace}/{}", key.name);
        let nowhere = BTreeSet::new();
        let question = ObjectQuestion {
            key: key.clone(),
            in_configuration: KindInConfiguration::Configured,
            unseen: &nowhere,
            unseen_roles: &nowhere,
        };
        for (to, answer) in below(forest, &question, &source.namespace) {
            let comes = comes(&answer, &source.namespace);
            let is_held = matches!(answer.there, There::Own { .. });
            // The webhook knows no Roles.
            if is_held && comes.is_none_or(is_about_role) {
                let held = if copies.contains_key(&to) { &mut self.once } else { &mut self.own };
                held.insert(shown(&to));
            }
            let arrives = answer.above.iter().any(|it| it.comes.is_ok());
            match (mode(source), comes) {
                (None | Some(HopMode::Unknown), None) if !asks(source) => {
                    self.spreads.insert(shown(&source.namespace));
                }
                // Accurate's side does not copy every binding either.
                (Some(HopMode::Update), Some(why))
                    if !is_held && !arrives && (!is_about_role(why) || copies.contains_key(&to)) =>
                {
                    self.lose(why, shown(&source.namespace), &to);
                    return;
                }
                _ => {}
            }
        }
    }

    fn lose(&mut self, why: &Withheld, source: String, to: &Name) {
        let (lost, shown) = match why {
            Withheld::Mode(_) | Withheld::NotOptedIn => (&mut self.unasked, source),
            why if is_about_role(why) => (&mut self.unbound, format!("{source} (not to {to}: {why})")),
            why => (&mut self.withheld, format!("{source} (not to {to}: {why})")),
        };
        lost.insert(shown);
    }

    /// Fails if rights or content would spread, if copies would be lost, or if the webhook would refuse a namespace of the tree.
    pub(super) fn allow(&self) -> Result<(), Failure> {
        let lost = "Accurate copies these objects, and HNC does not, so their copies would be deleted";
        for (what, objects, hint) in [
            (
                "HNC copies these objects to all namespaces below, and Accurate does not",
                &self.spreads,
                "Keep each where it is with `kubectl annotate RESOURCE NAME -n NAMESPACE propagate.hnc.x-k8s.io/none=true`, or have Accurate \
                 copy it first.",
            ),
            (
                lost,
                &self.unasked,
                "Let HNC copy them: `kubectl hns config set-resource RESOURCE --mode AllowPropagate`, and annotate each with \
                 propagate.hnc.x-k8s.io/all=true; or remove the annotation accurate.cybozu.com/propagate.",
            ),
            (
                lost,
                &self.unbound,
                "HNC copies a RoleBinding only to where its Role is the same. Have the Role copied too: annotate it with \
                 accurate.cybozu.com/propagate=update, and not with propagate.hnc.x-k8s.io/none. Or bind a ClusterRole instead. Or \
                 remove the annotation accurate.cybozu.com/propagate from the RoleBinding, which deletes its copies.",
            ),
            (
                lost,
                &self.withheld,
                "Remove what keeps HNC from copying them; or remove the annotation accurate.cybozu.com/propagate, which deletes their \
                 copies.",
            ),
            (
                "these objects are in the way of what HNC copies from above",
                &self.own,
                "Rename or delete them; or, if Accurate does not copy what has their name above, keep HNC from copying it with the \
                 annotation propagate.hnc.x-k8s.io/none=true.",
            ),
            (
                "these copies, which were created once, are in the way of what HNC copies from above",
                &self.once,
                "If you delete them, they are created again. Annotate their sources instead: with \
                 accurate.cybozu.com/propagate=update, and they become equal to their sources and are replaced by HNC's copies; or \
                 with propagate.hnc.x-k8s.io/none=true, and they stay as plain objects. HNC then does not copy RoleBindings to a Role \
                 with that annotation.",
            ),
        ] {
            if !objects.is_empty() {
                let objects: Vec<String> = objects.iter().cloned().collect();
                let text = format!("Error: {what}: {}; nothing was changed", first(&objects, NAMED));
                return Err(Failure::new(text).with_hint(hint));
            }
        }
        Ok(())
    }
}

/// Whether it is a copy of Accurate's.
fn is_copied(object: &ObjectFact) -> bool {
    object.hop.as_ref().is_some_and(|it| it.from.is_some())
}

fn mode(object: &ObjectFact) -> Option<HopMode> {
    object.hop.as_ref()?.mode
}

/// Whether an annotation asks HNC to copy it.
fn asks(object: &ObjectFact) -> bool {
    matches!(object.exceptions.as_deref(), Some(Ok(exceptions)) if exceptions.asking().next().is_some())
}

/// Why the source in this namespace does not come, if so.
fn comes<'a>(answer: &'a ObjectExplanation, from: &Name) -> Option<&'a Withheld> {
    match answer.above.iter().find(|it| it.namespace == *from) {
        Some(it) => it.comes.as_ref().err(),
        // The forest does not know objects of ignored kinds.
        None => Some(&Withheld::Mode(Mode::Ignore)),
    }
}

fn is_about_role(why: &Withheld) -> bool {
    matches!(why, Withheld::OtherRole { .. } | Withheld::RoleTerminating(_))
}

/// The kinds to look at. HNC ignores those that are only `watched`.
pub(super) fn kinds(configured: &ConfiguredKinds, watched: Vec<Kind>) -> Vec<KindSettings> {
    let is_watched = |kind: &Kind| watched.iter().any(|it| is_same(it, kind));
    let mut kinds = configured.settings();
    kinds.retain(|it| it.mode.propagates() || is_watched(&it.kind));
    for kind in watched {
        if !kinds.iter().any(|it| is_same(&it.kind, &kind)) {
            kinds.push(KindSettings::new(kind, Mode::Ignore));
        }
    }
    kinds
}

fn is_same(one: &Kind, other: &Kind) -> bool {
    (&one.group, &one.resource) == (&other.group, &other.resource)
}

#[cfg(test)]
mod tests;
