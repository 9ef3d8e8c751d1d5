//! The writes for the `SubNamespaces` in a namespace, and for their namespaces (section 8.6 of Accurate's contract).

use super::{AccurateAction, Action};
use crate::accurate::fact::{Stalled, SubNamespaceFact, SubNamespaceStatus};
use crate::accurate::keys;
use crate::accurate::place::Labelled;
use crate::accurate::rules::namespace::has_next;
use crate::accurate::state::labels_of;
use crate::core::name::{PERMANENT, is_namespace_name};
use crate::core::tree::{EdgeKind, Id};
use crate::core::version::Version;
use crate::dialects::Forest;

/// The writes, in their order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// To the `SubNamespaces` themselves, before a namespace is created.
    pub(super) change: Vec<Action>,
    pub(super) create: Vec<Action>,
    pub(super) delete: Vec<Action>,
}

/// What a `SubNamespace` stands for.
enum Child {
    /// Its namespace, and whether that is to be deleted with it.
    Ours { version: Version, goes: bool },
    /// Its namespace does not exist, and is created.
    Missing,
    /// It had its namespace, which is being deleted and may have lost its labels. It stays as it is until that is gone.
    Going,
    /// There is no such namespace, and there will be none: the reason and a message.
    Stalled(&'static str, String),
}

/// Who creates a missing namespace of which there are several `SubNamespaces`: the strongest one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It waits for the name to become free.
    Waits,
    IsNew,
    HadIt,
}

fn claim(form: &SubNamespaceFact) -> Claim {
    match &form.status {
        SubNamespaceStatus { stalled: Some(_), .. } => Claim::Waits,
        SubNamespaceStatus { observed_generation: 0, .. } => Claim::IsNew,
        _ => Claim::HadIt,
    }
}

/// The writes that correct the `SubNamespaces` of this namespace. While their CRD is being deleted, and in a namespace that is not
/// managed, no namespace is created or deleted, and what is being deleted loses our finalizer.
pub(super) fn changes(forest: &Forest, id: Id) -> Changes {
    let mut changes = Changes::default();
    let all_go = forest.accurate().crd_is_being_deleted() || !forest.is_managed(id);
    // This namespace goes with its own `SubNamespace`, so nothing comes to be below it.
    let may_create = !forest.own_sub_namespace(id).is_some_and(|own| own.terminating);
    for form in forest.accurate().sub_namespaces(id).values() {
        let child = child(forest, id, form);
        if form.terminating {
            changes.end(form, &child, all_go);
        } else if !all_go && forest.lasting_namespace(id).is_some() {
            changes.keep(form, &child, may_create);
        }
    }
    changes
}

fn child(forest: &Forest, parent: Id, form: &SubNamespaceFact) -> Child {
    const CONFLICT: &str = "Conflict";
    const CYCLE: &str = "Cycle";
    let conflict = || Child::Stalled(CONFLICT, "Conflicting namespace already exists".into());
    let id = forest.id(&form.name);
    let name = forest.name(parent);
    if let Some((id, seen)) = id.and_then(|id| Some((id, forest.namespace(id)?))) {
        return match labels_of(forest, id).value(keys::PARENT) {
            Some(said) if *said == **name => {
                let goes = !seen.terminating && !keeps_its_namespace(forest, &form.name);
                Child::Ours { version: seen.version.get(), goes }
            }
            _ if seen.terminating && claim(form) == Claim::HadIt => Child::Going,
            _ => conflict(),
        };
    }
    if is_for_another(forest, form) {
        return conflict();
    }
    // The namespaces above this one can name a missing one, too.
    if id.is_some_and(|id| forest.tree.hop_ancestry(parent).path.contains(&id)) {
        return Child::Stalled(CYCLE, format!("namespace {} would be below itself", form.name));
    }
    // Others name this one as their upstream namespace. It is not given to the one that waited for the name to become free. These two
    // states stay whatever else is wrong: they are all that is known of the wait.
    let is_awaited = id.is_some_and(|id| !forest.tree.next_hops(id).is_empty());
    let waited = form.status.stalled.as_ref().is_some_and(|it| [CONFLICT, CYCLE].contains(&&*it.reason));
    if is_awaited && waited {
        return conflict();
    }
    if !labels_of(forest, parent).leads(EdgeKind::Parent) {
        return Child::Stalled(
            "InvalidParent",
            format!("namespace {name} is neither a root nor a sub namespace"),
        );
    }
    if !is_namespace_name(&form.name) || forest.settings().unmanaged(&form.name).is_some() {
        return Child::Stalled("InvalidName", format!("No sub-namespace can have the name {:?}", form.name));
    }
    // It would be in both hierarchies.
    if id.is_some_and(|id| !forest.downstream(id).is_empty()) {
        let name = &form.name;
        return Child::Stalled(CONFLICT, format!("namespaces of hnc.x-k8s.io name {name} as their parent"));
    }
    Child::Missing
}

/// Whether another `SubNamespace` of this name has a stronger claim.
fn is_for_another(forest: &Forest, form: &SubNamespaceFact) -> bool {
    let is_stronger = |holder: Id| {
        let other = forest.accurate().sub_namespaces(holder).get(&form.name);
        other.is_some_and(|other| !other.terminating && claim(other) > claim(form))
    };
    forest.accurate().holders(&form.name).any(|holder| forest.is_managed(holder) && is_stronger(holder))
}

/// Whether the namespace cannot be deleted, or others came below it at the same moment in which the deletion of its `SubNamespace` was
/// judged: they must not lose what is above them. The rules refuse the deletion of both, but the `SubNamespace` must not wait forever.
fn keeps_its_namespace(forest: &Forest, name: &str) -> bool {
    let cascades = forest.accurate().settings().is_some_and(|it| it.allow_cascading_deletion);
    PERMANENT.contains(&name)
        || has_next(forest, name, EdgeKind::Template)
        || (!cascades && has_next(forest, name, EdgeKind::Parent))
}

impl Changes {
    /// A `SubNamespace` that is being deleted takes its namespace with it. Our finalizer is dropped once that is being deleted, or if it
    /// stays.
    fn end(&mut self, form: &SubNamespaceFact, child: &Child, all_go: bool) {
        let Some(at) = form.finalizers.iter().position(|it| **it == *keys::FINALIZER) else { return };
        match child {
            Child::Ours { version, goes: true } if !all_go => {
                let (child, version) = (form.name.clone(), version.clone());
                self.delete.push(AccurateAction::DeleteNamespace { child, version }.into());
            }
            _ => {
                let mut finalizers = form.finalizers.clone();
                finalizers.remove(at);
                self.update(form, Some(finalizers), None);
            }
        }
    }

    fn keep(&mut self, form: &SubNamespaceFact, child: &Child, may_create: bool) {
        if matches!(child, Child::Going) {
            return;
        }
        let observed_generation = form.generation;
        let stalled = match child {
            Child::Stalled(reason, message) => Some(Stalled {
                reason: (*reason).into(),
                message: message.as_str().into(),
                observed_generation,
            }),
            _ => None,
        };
        let is_ours = stalled.is_none();
        let status = SubNamespaceStatus { observed_generation, stalled };
        let is_missing = matches!(child, Child::Missing);
        if is_missing && may_create {
            self.create.push(AccurateAction::CreateNamespace { child: form.name.clone() }.into());
        }
        let finalizers =
            super::super::rules::sub_namespace::with_finalizer(&form.finalizers).filter(|_| is_ours);
        self.update(form, finalizers, Some(status).filter(|status| !is_missing && *status != form.status));
    }

    fn update(
        &mut self,
        form: &SubNamespaceFact,
        finalizers: Option<Vec<Box<str>>>,
        status: Option<SubNamespaceStatus>,
    ) {
        if finalizers.is_none() && status.is_none() {
            return;
        }
        let (child, version) = (form.name.clone(), form.version.clone());
        let was_stalled = form.status.stalled.is_some();
        self.change.push(
            AccurateAction::UpdateSubNamespace { child, version, finalizers, status, was_stalled }.into(),
        );
    }
}
