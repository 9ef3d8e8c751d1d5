//! `vsubnamespace.kb.io` and `subnamespace.accurate.cybozu.io`: which `SubNamespaces` may be created and deleted (sections 7.1, 7.3
//! and 7.4 of Accurate's contract).
//!
//! Accurate did not judge changes. Here the labels and annotations of a changed spec must be well-formed: with others, the controller
//! could no longer write to the namespace. A user who adds an owner reference must have the right to delete: the garbage collector
//! deletes the `SubNamespace` with its owner, and then the namespace is deleted, too. A user who removes the controller's finalizer must
//! be able to give rights in the parent: otherwise an editor could delete the `SubNamespace` alone, and no quota would count its
//! namespace any more.

use std::collections::BTreeSet;

use super::namespace::{has_next, not_in_hnc};
use super::{
    can_be_deleted, forbidden, has_rights, hncs_structure_is_known, is_admin, may_delete_below, next_consent,
    next_leave_their_tree, no_template_goes_along, structure_is_known,
};
use crate::accurate::SubNamespaceFact;
use crate::accurate::keys;
use crate::accurate::naming::Fit;
use crate::accurate::place::Labelled;
use crate::accurate::state::labels_of;
use crate::core::denial::{Cause, Denial};
use crate::core::key_syntax::{label_value_fault, qualified_name_fault};
use crate::core::name::{Name, is_namespace_name};
use crate::core::stream::Stream;
use crate::core::tree::EdgeKind;
use crate::core::verdict::{Answers, Check, Operation, ParentChange, Presence, User, Verdict, presence};
use crate::dialects::Forest;
use crate::hnc::rules::parent_change;
use crate::hnc::words::listed;

/// The most labels that a namespace gets from its `SubNamespace`. A larger one could become too large for its status.
const MOST_LABELS: usize = 100;

/// The most bytes of all annotations of an object.
const MOST_BYTES: usize = 256 << 10;

/// A request that creates or deletes a `SubNamespace`, or changes its spec, its owner references or its finalizers.
#[derive(Debug, Clone)]
pub struct Request {
    /// Create, update or delete.
    pub operation: Operation,
    /// Its namespace, which is the parent.
    pub namespace: Name,
    /// Its name, which is the child's.
    pub name: Name,
    /// The requesting user.
    pub user: User,
    /// The pairs under `spec.labels`; none of a deleted object.
    pub labels: Vec<(String, String)>,
    /// The same for `spec.annotations`.
    pub annotations: Vec<(String, String)>,
    /// Whether there is an owner reference that was not there before.
    pub adds_owner: bool,
    /// Whether it loses the controller's finalizer, also if it is being deleted: its namespace may be there still.
    pub removes_finalizer: bool,
}

/// All finalizers of a new `SubNamespace`: those that it has, and ours. `None` if it has ours.
pub fn with_finalizer(finalizers: &[Box<str>]) -> Option<Vec<Box<str>>> {
    let has_ours = finalizers.iter().any(|it| **it == *keys::FINALIZER);
    (!has_ours).then(|| finalizers.iter().cloned().chain([keys::FINALIZER.into()]).collect())
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    if forest.accurate().settings().is_none() {
        return Verdict::allow();
    }
    let review = Review { forest, request, answers };
    let judged = match request.operation {
        Operation::Create => structure_is_known(forest).and_then(|()| review.create()),
        Operation::Update => refuse(&review.pair_faults()),
        Operation::Delete => structure_is_known(forest).and_then(|()| review.delete()),
    };
    let rights = |()| review.user_may_add_owner().and_then(|()| review.user_may_remove_finalizer());
    judged.and_then(rights).err().unwrap_or_else(Verdict::allow).with_change(|| review.change())
}

/// Whether `SubNamespaces` in this namespace are about to create others.
pub(super) fn has_waiting(forest: &Forest, name: &str) -> bool {
    let forms = forest.id(name).map(|id| forest.accurate().sub_namespaces(id)).into_iter().flatten();
    let waits = |(child, form): (&Name, &SubNamespaceFact)| {
        !form.terminating && form.status.stalled.is_none() && !forest.has_seen(child)
    };
    forms.into_iter().any(waits)
}

/// All faults are reported at once.
fn refuse(faults: &[Cause]) -> Check {
    if faults.is_empty() {
        return Ok(());
    }
    Err(forbidden(faults.iter().map(Cause::to_string).collect::<Vec<_>>().join(", ")))
}

struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request,
    answers: &'a Answers,
}

impl Review<'_> {
    fn create(&self) -> Check {
        let Request { namespace, name, .. } = self.request;
        let forest = self.forest;
        if let Some(why) = forest.settings().unmanaged(namespace) {
            return Err(forbidden(format!("namespace {namespace} {why}, so it has no sub-namespaces")));
        }
        if matches!(presence(forest, namespace, self.answers)?, Presence::Absent) {
            return Err(Denial::internal(format!("namespace {namespace:?} does not exist")).into());
        }
        let leads = forest.id(namespace).is_some_and(|id| labels_of(forest, id).leads(EdgeKind::Parent));
        if !leads {
            return Err(forbidden(format!("namespace {namespace} is neither a root nor a sub namespace")));
        }
        refuse(&[self.name_faults(), self.pair_faults()].concat())?;
        self.follows_naming_policies(&self.root()?)?;
        hncs_structure_is_known(forest)?;
        not_in_hnc(forest, namespace)?;
        let lasts = forest.has_seen(name) && !forest.is_terminating(name);
        if lasts && self.has_its_namespace() {
            return Ok(());
        }
        if !lasts {
            not_in_hnc(forest, name)?;
        }
        // It would be the missing parent of others, now or when the namespace is gone. If no controller runs until then, no conflict is
        // shown that would keep the name.
        next_consent(forest, name, self.answers)?;
        if lasts && self.is_upstream() { Ok(()) } else { next_leave_their_tree(forest, name, self.answers) }
    }

    /// Whether the namespace passes objects on to all that name it, and so is not deleted before them.
    fn is_upstream(&self) -> bool {
        let (forest, name) = (self.forest, &self.request.name);
        let Some(id) = forest.id(name) else { return false };
        let passes_on = |kind| labels_of(forest, id).leads(kind) || !has_next(forest, name, kind);
        passes_on(EdgeKind::Parent) && passes_on(EdgeKind::Template)
    }

    fn has_its_namespace(&self) -> bool {
        let Request { namespace, name, .. } = self.request;
        self.forest
            .id(name)
            .is_some_and(|id| labels_of(self.forest, id).value(keys::PARENT) == Some(namespace))
    }

    fn user_may_add_owner(&self) -> Check {
        let Request { namespace, name, adds_owner, .. } = self.request;
        if !adds_owner {
            return Ok(());
        }
        has_rights(&[may_delete_below(namespace)], self.answers, || {
            format!(
                "add an owner reference to the SubNamespace {name:?}, which would be deleted with its owner"
            )
        })
    }

    fn user_may_remove_finalizer(&self) -> Check {
        let Request { namespace, name, removes_finalizer, .. } = self.request;
        if !removes_finalizer {
            return Ok(());
        }
        has_rights(&[is_admin(namespace)], self.answers, || {
            format!(
                "remove the finalizer {} of the SubNamespace {name:?}, which the controller removes when its namespace is being \
                 deleted",
                keys::FINALIZER
            )
        })
    }

    fn name_faults(&self) -> Vec<Cause> {
        let name = &self.request.name;
        let mut causes = Vec::new();
        if !is_namespace_name(name) {
            let why = "becomes the name of a namespace, so it must be a DNS label: at most 63 lower-case letters, digits and '-', \
                       the first and last a letter or a digit";
            causes.push(Cause::invalid("metadata.name", name, why));
        }
        if let Some(why) = self.forest.settings().unmanaged(name) {
            causes.push(Cause::invalid("metadata.name", name, &why.to_string()));
        }
        causes
    }

    fn pair_faults(&self) -> Vec<Cause> {
        let Request { labels, annotations, .. } = self.request;
        let mut causes = Vec::new();
        for (key, value) in labels {
            let key_fault = qualified_name_fault(key).map(|why| Cause::invalid("spec.labels", key, why));
            let value_fault =
                label_value_fault(key, value).map(|why| Cause::invalid("spec.labels", value, why));
            causes.extend(key_fault.into_iter().chain(value_fault));
        }
        for (key, _) in annotations {
            let fault = qualified_name_fault(&key.to_lowercase());
            causes.extend(fault.map(|why| Cause::invalid("spec.annotations", key, why)));
        }
        if labels.len() > MOST_LABELS {
            let why = format!("must have at most {MOST_LABELS} labels");
            causes.push(Cause::invalid("spec.labels", &format!("{} labels", labels.len()), &why));
        }
        let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > MOST_BYTES {
            let why = format!("must have at most {MOST_BYTES} bytes");
            causes.push(Cause::invalid("spec.annotations", &format!("{bytes} bytes"), &why));
        }
        causes
    }

    /// The namespace at the top of the parents. In a cycle, the last one before it repeats.
    fn root(&self) -> Check<Name> {
        let mut path = vec![self.request.namespace.clone()];
        loop {
            let last = path.last().expect("it begins with a namespace");
            let Some(id) = self.forest.id(last).filter(|_| self.forest.has_seen(last)) else {
                return Err(forbidden(format!("namespace {last} is not found")));
            };
            match labels_of(self.forest, id).value(keys::PARENT).map(Name::from) {
                Some(parent) if !path.contains(&parent) => path.push(parent),
                _ => return Ok(last.clone()),
            }
        }
    }

    fn follows_naming_policies(&self, root: &str) -> Check {
        let Request { namespace, name, .. } = self.request;
        let policies = self.forest.accurate().settings().into_iter().flat_map(|it| &it.naming_policies);
        for policy in policies {
            match policy.judge(root, name) {
                Fit::Fits => {}
                Fit::Broken(why) => {
                    return Err(forbidden(format!(
                        "the naming policy {policy} cannot be used for root {root:?}: {why}; an administrator must correct \
                         accurate.config.namingPolicies in the settings"
                    )));
                }
                Fit::Misfits => {
                    return Err(forbidden(format!(
                        "namespace {namespace} is not match naming policies: namespace - target={name} root={root} denied policy - \
                         {policy}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// A `SubNamespace` in conflict deletes no namespace, and neither does one in an excluded namespace. One whose namespace is already
    /// being deleted changes nothing any more.
    fn deletes_its_namespace(&self) -> bool {
        let Request { namespace, name, .. } = self.request;
        self.has_its_namespace()
            && !self.forest.is_terminating(name)
            && self.forest.settings().is_managed(namespace)
    }

    /// Until the deletion is seen, nothing comes to be below the namespace. The deletion of one in conflict delays no other request.
    fn change(&self) -> Option<ParentChange> {
        let Request { operation, namespace, name, .. } = self.request;
        (*operation == Operation::Delete && self.deletes_its_namespace()).then(|| ParentChange {
            anchor_in: Some(namespace.clone()),
            deletes: true,
            ..parent_change(self.forest, name, Stream::SUB_NAMESPACES, [None, None])
        })
    }

    fn delete(&self) -> Check {
        let (forest, name) = (self.forest, &self.request.name);
        if !self.deletes_its_namespace() {
            return Ok(());
        }
        // The namespace controller deletes what is in a namespace that is being deleted. The controller then keeps what cannot be deleted.
        if !forest.is_terminating(&self.request.namespace) {
            can_be_deleted(forest, name)?;
        }
        let cascades = forest.accurate().settings().is_some_and(|it| it.allow_cascading_deletion);
        if has_next(forest, name, EdgeKind::Template)
            || (!cascades && (has_next(forest, name, EdgeKind::Parent) || has_waiting(forest, name)))
        {
            return Err(forbidden("child namespaces exist"));
        }
        if forest.is_terminating(&self.request.namespace) {
            return Ok(());
        }
        no_template_goes_along(forest, name)?;
        self.has_no_subnamespaces()
    }

    /// While `kubectl hns convert` takes a tree to HNC's hierarchy, subnamespaces can be below the namespace. They would lose their
    /// parent.
    fn has_no_subnamespaces(&self) -> Check {
        let (forest, name) = (self.forest, &self.request.name);
        let below = forest.id(name).map(|id| forest.obstructing_subnamespaces(id)).unwrap_or_default();
        if below.is_empty() {
            return Ok(());
        }
        Err(forbidden(format!(
            "namespace {name:?} has subnamespaces in a hierarchy of hnc.x-k8s.io: {}; first finish the conversion: kubectl hns convert ROOT \
             --to hnc",
            listed(&BTreeSet::from_iter(below))
        )))
    }
}
