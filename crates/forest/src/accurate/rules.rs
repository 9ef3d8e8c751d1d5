//! Admission: is a request allowed (section 7 of Accurate's contract)?
//!
//! One file per webhook. As in HNC's rules, a rule is a function of a forest, a request and the answers that are known so far; it
//! allows, denies, or returns questions for the API server. Where Accurate denies, the messages are Accurate's.

pub mod namespace;
pub mod sub_namespace;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::keys;
use crate::core::denial::Denial;
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::core::tree::{EdgeKind, Id};
use crate::core::verdict::{Answers, Check, NamespacedRight, Question, first_refused, unreliable};
use crate::dialects::Forest;
use crate::hnc;
use crate::hnc::words::listed;

/// 503 while the streams of the structure are incomplete.
fn structure_is_known(forest: &Forest) -> Check {
    let gap = Stream::ACCURATE_STRUCTURE.into_iter().find(|stream| !forest.stream(*stream).is_synced());
    gap.map_or(Ok(()), |stream| Err(unreliable(stream, &forest.stream(stream))))
}

/// 503 while it is not known which namespaces have a place in HNC's hierarchy.
fn hncs_structure_is_known(forest: &Forest) -> Check {
    forest.structure_gap().map_or(Ok(()), |(stream, state)| Err(unreliable(stream, &state)))
}

fn forbidden(message: impl AsRef<str>) -> crate::core::verdict::Verdict {
    Denial::forbidden(message).into()
}

/// 403 if Kubernetes never deletes the namespace, or one that would be deleted with it: those whose own `SubNamespaces` lead up to it.
fn can_be_deleted(forest: &Forest, name: &str) -> Check {
    let above = |id| forest.tree.hop_ancestry(id).path;
    let goes_along = |id| forest.own_sub_namespace(id).is_some();
    let kept = forest.id(name).and_then(|id| forest.permanent_with(id, above, goes_along));
    kept.map_or(Ok(()), |kept| {
        Err(forbidden(format!(
            "namespace {kept:?} would have to be deleted, too, but Kubernetes never deletes it; take it out of its tree first: \
             kubectl accurate sub cut {kept}"
        )))
    })
}

/// 403 if a sub-namespace that would be deleted with this namespace is the template of others: it stays while they name it, and so do all
/// above it.
fn no_template_goes_along(forest: &Forest, name: &str) -> Check {
    let mut along: Vec<Id> = forest.id(name).into_iter().collect();
    let mut seen: BTreeSet<Id> = along.iter().copied().collect();
    while let Some(above) = along.pop() {
        let next = || forest.tree.next_hops(above).iter().copied();
        let is_instance = |it: &Id| forest.tree.hop(*it).is_some_and(|edge| edge.kind == EdgeKind::Template);
        let instances: BTreeSet<&Name> = next().filter(is_instance).map(|it| forest.name(it)).collect();
        let template = forest.name(above);
        if **template != *name && !instances.is_empty() {
            return Err(forbidden(format!(
                "namespace {template:?} would have to be deleted, too, but it is the template of {}; remove their template first: kubectl \
                 accurate template unset INSTANCE",
                listed(&instances)
            )));
        }
        along.extend(next().filter(|it| forest.own_sub_namespace(*it).is_some() && seen.insert(*it)));
    }
    Ok(())
}

/// The right that shows that a user decides about sub-namespaces of a namespace.
fn may_create_below(namespace: &str) -> NamespacedRight {
    let (verb, group, resource) = ("create", keys::GROUP, "subnamespaces");
    NamespacedRight { namespace: namespace.into(), verb, group, resource }
}

/// The right that shows that a user may end what a namespace passes on to another one.
fn may_delete_below(namespace: &str) -> NamespacedRight {
    NamespacedRight { verb: "delete", ..may_create_below(namespace) }
}

/// The right of an admin of a namespace, as in HNC's hierarchy. The right to update role bindings is not enough: Kubernetes lets a user grant
/// only rights that the user has.
fn is_admin(namespace: &str) -> NamespacedRight {
    let (verb, group, resource) = ("update", hnc::keys::GROUP, "hierarchyconfigurations");
    NamespacedRight { namespace: namespace.into(), verb, group, resource }
}

/// The user must have all of these rights; `what` is what the user wants to do, as a clause without a subject.
fn has_rights(rights: &[NamespacedRight], answers: &Answers, what: impl FnOnce() -> String) -> Check {
    let questions: Vec<Question> = rights.iter().cloned().map(Question::Has).collect();
    let Some(lacking) = first_refused(&questions, answers)? else { return Ok(()) };
    let right @ NamespacedRight { verb, group, resource, .. } = &rights[lacking];
    Err(forbidden(format!(
        "you may not {}: the right to {verb} {resource}.{group} in {} is needed",
        what(),
        right.place()
    )))
}

/// The upstream namespace of existing ones gives rights in them. So a user who creates it while it is missing, or makes a namespace
/// one that can be upstream, must be able to give rights in each of them.
fn next_consent(forest: &Forest, name: &Name, answers: &Answers) -> Check {
    let next = forest.id(name).map(|id| forest.tree.next_hops(id)).unwrap_or_default();
    let rights: Vec<_> = next.iter().map(|next| is_admin(forest.name(*next))).collect();
    has_rights(&rights, answers, || {
        format!(
            "make {name:?} a namespace that passes objects on: existing namespaces name it as their parent or template"
        )
    })
}

/// The namespaces above a missing parent or template are not known. A user who creates it in another place takes the namespaces that name it
/// out of their tree, and its restrictions go with that. So an admin of the cluster must consent.
fn next_leave_their_tree(forest: &Forest, name: &Name, answers: &Answers) -> Check {
    let Some(next) = forest.id(name).and_then(|id| forest.tree.next_hops(id).first().copied()) else {
        return Ok(());
    };
    has_rights(&[may_delete_below(NamespacedRight::ALL)], answers, || {
        format!(
            "make {name:?} a namespace that passes objects on: namespace {:?} names it, and would leave the tree in which it was before",
            forest.name(next)
        )
    })
}
