//! `namespace.accurate.cybozu.io`: which labels a namespace may have, and when it may be deleted (section 7.2 of Accurate's
//! contract).
//!
//! Only requests that change a label of Accurate are judged, and deletions of namespaces that can be upstream of others; never a
//! namespace that is excluded by name. A namespace that is already being deleted may lose its labels, and gets no others. An API
//! server need not ask about anything else.

use std::collections::BTreeSet;

use super::sub_namespace::has_waiting;
use super::{
    can_be_deleted, forbidden, has_rights, hncs_structure_is_known, is_admin, may_create_below,
    may_delete_below, next_consent, next_leave_their_tree, no_template_goes_along, structure_is_known,
};
use crate::accurate::keys;
use crate::accurate::place::Labelled;
use crate::accurate::state::labels_of;
use crate::core::fields::Pairs;
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::core::tree::{EdgeKind, Id};
use crate::core::verdict::{
    Answers, Check, NamespacedRight, Operation, ParentChange, Presence, User, Verdict, presence,
};
use crate::dialects::Forest;
use crate::hnc::rules::{link, parent_change};
use crate::hnc::words::listed;

/// A request that creates, changes or deletes a namespace.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Create, update or delete.
    pub operation: Operation,
    /// Its name.
    pub name: Name,
    /// The requesting user.
    pub user: User,
    /// The labels before; empty for a new namespace.
    pub old: Pairs<'a>,
    /// The labels afterwards; empty for a deleted namespace.
    pub new: Pairs<'a>,
    /// Whether the namespace is already being deleted.
    pub terminating: bool,
    /// Whether it says afterwards that it is a subnamespace in HNC's hierarchy.
    pub is_subnamespace: bool,
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request<'_>, answers: &Answers) -> Verdict {
    let review = Review { forest, request, answers };
    let concerns = review.changes_place()
        && !(request.terminating && review.only_removes())
        && forest.settings().unmanaged(&request.name).is_none();
    if forest.accurate().settings().is_none() || !concerns {
        return Verdict::allow();
    }
    let judged = structure_is_known(forest).and_then(|()| match request.operation {
        Operation::Create => review.create(),
        Operation::Update => review.update(),
        Operation::Delete => review.delete(),
    });
    judged.err().unwrap_or_else(Verdict::allow).with_change(|| review.change())
}

/// The labels that say where a namespace is.
const PLACE: [&str; 3] = [keys::TYPE, keys::PARENT, keys::TEMPLATE];

struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request<'a>,
    answers: &'a Answers,
}

impl<'a> Review<'a> {
    fn before(&self) -> impl Labelled<'a> + use<'a> {
        let request = self.request;
        |key: &str| request.old.get(key)
    }

    fn after(&self) -> impl Labelled<'a> + use<'a> {
        let request = self.request;
        |key: &str| request.new.get(key)
    }

    /// Whether a label of Accurate changes, if only its presence.
    fn changes_place(&self) -> bool {
        let Request { old, new, .. } = self.request;
        PLACE.into_iter().any(|key| old.get(key) != new.get(key))
    }

    /// Whether it sets no label of Accurate.
    fn only_removes(&self) -> bool {
        let Request { old, new, .. } = self.request;
        let is_set = |key: &str| new.contains_key(key) && old.get(key) != new.get(key);
        !PLACE.into_iter().any(is_set)
    }

    fn create(&self) -> Check {
        self.is_not_above_its_upstream()?;
        self.labels_fit()?;
        self.is_in_one_hierarchy()?;
        self.next_consent()?;
        self.user_may_place()
    }

    fn update(&self) -> Check {
        self.stays()?;
        self.no_cycle()?;
        self.type_is_free_to_change()?;
        self.leaves_no_children()?;
        self.labels_fit()?;
        self.is_in_one_hierarchy()?;
        self.next_consent()?;
        self.user_may_place()
    }

    /// The new place. Until it is seen, no other change of this namespace, or of one upstream of it, is allowed in either hierarchy, and
    /// nothing comes to be below it: the two could make a cycle, put a namespace into both, or leave one below a namespace that cannot be
    /// upstream. A new namespace that no other one names cannot make a cycle.
    /// So only its upstream namespace counts. A deletion is no change: without policies, two webhooks judge it.
    fn change(&self) -> Option<ParentChange> {
        let Request { operation, name, .. } = self.request;
        let upstream = self.after().edge();
        let mut above = upstream.map(|(_, name)| above(self.forest, name)).unwrap_or_default();
        if *operation == Operation::Create && !is_named(self.forest, name) {
            above.truncate(1);
        }
        let links = above.into_iter().map(|id| link(self.forest, self.forest.name(id).clone()));
        let links = links.collect();
        let change = parent_change(self.forest, name, Stream::NAMESPACES, [None, None]);
        (*operation != Operation::Delete).then_some(ParentChange { links, ..change })
    }

    /// A namespace that is being deleted stays where it is, as in HNC's hierarchy.
    fn stays(&self) -> Check {
        let Request { name, terminating, .. } = self.request;
        if *terminating {
            return Err(forbidden(format!(
                "namespace {name:?} is being deleted, so labels of accurate.cybozu.com can only be removed from it"
            )));
        }
        Ok(())
    }

    /// Others can name a namespace that does not exist.
    fn is_not_above_its_upstream(&self) -> Check {
        let (forest, upstream) = (self.forest, self.after().edge());
        let id = forest.id(&self.request.name);
        let is_below = |upstream: &str| above(forest, upstream).into_iter().any(|above| Some(above) == id);
        if upstream.is_some_and(|(_, upstream)| is_below(upstream)) { Err(is_circular()) } else { Ok(()) }
    }

    /// Walks upstream from the new labels.
    fn no_cycle(&self) -> Check {
        let mut seen = vec![self.request.name.clone()];
        let mut next = self.after().edge().map(|(_, name)| Name::from(name));
        while let Some(hop) = next {
            if seen.contains(&hop) {
                return Err(is_circular());
            }
            if matches!(presence_of(self.forest, &hop, self.answers)?, Presence::Absent) {
                return Err(forbidden(format!("parent namespace does not exist: {hop}")));
            }
            let id = self.forest.id(&hop);
            next = id.and_then(|id| labels_of(self.forest, id).edge()).map(|(_, name)| Name::from(name));
            seen.push(hop);
        }
        Ok(())
    }

    fn type_is_free_to_change(&self) -> Check {
        let name = &self.request.name;
        let [old, new] = [self.before().value(keys::TYPE), self.after().value(keys::TYPE)];
        match old.filter(|_| old != new) {
            Some(keys::ROOT) if self.has_next(EdgeKind::Parent) => Err(has_children(name)),
            Some(keys::TEMPLATE_TYPE) if self.has_next(EdgeKind::Template) => {
                Err(forbidden(format!("there are namespaces referencing {name}")))
            }
            _ => Ok(()),
        }
    }

    /// A namespace that is a sub-namespace no more has no children, unless it becomes a root. Those that name it as their template
    /// count like children.
    fn leaves_no_children(&self) -> Check {
        let (old, new) = (self.before(), self.after());
        if old.value(keys::PARENT).is_none() {
            return Ok(());
        }
        if !new.leads(EdgeKind::Parent) && self.has_next(EdgeKind::Parent) {
            return Err(has_children(&self.request.name));
        }
        if !new.leads(EdgeKind::Template) && self.has_next(EdgeKind::Template) {
            return Err(forbidden(format!("there are namespaces referencing {}", self.request.name)));
        }
        Ok(())
    }

    fn has_next(&self, kind: EdgeKind) -> bool {
        has_next(self.forest, &self.request.name, kind)
    }

    fn labels_fit(&self) -> Check {
        let Request { name, new, .. } = self.request;
        let place = self.after();
        if let Some(parent) = place.value(keys::PARENT) {
            if *parent == **name {
                return Err(is_circular());
            }
            if new.contains_key(keys::TEMPLATE) {
                return Err(forbidden("a sub-namespace cannot have a template"));
            }
            if new.contains_key(keys::TYPE) {
                return Err(forbidden("a sub-namespace cannot be a root or a template"));
            }
            self.leads(parent, EdgeKind::Parent)?;
            self.is_not_deleted_with_its_form(parent)?;
        }
        if let Some(template) = place.value(keys::TEMPLATE) {
            if *template == **name {
                return Err(is_circular());
            }
            self.leads(template, EdgeKind::Template)?;
        }
        Ok(())
    }

    /// A `SubNamespace` that is being deleted takes along the namespace that is its own then. Its deletion was judged when this was
    /// another's.
    fn is_not_deleted_with_its_form(&self, parent: &str) -> Check {
        let (forest, name) = (self.forest, &self.request.name);
        let forms = forest.id(parent).map(|id| forest.accurate().sub_namespaces(id));
        let ends = forms.and_then(|forms| forms.get(name)).is_some_and(|form| form.terminating);
        if ends && self.before().value(keys::PARENT) != Some(parent) {
            return Err(forbidden(format!(
                "the SubNamespace {name:?} in namespace {parent:?} is being deleted, and would take namespace {name:?} along; wait \
                 until it is gone"
            )));
        }
        Ok(())
    }

    /// Whether a namespace can be the upstream namespace of such an edge.
    fn leads(&self, upstream: &str, kind: EdgeKind) -> Check {
        let (forest, name) = (self.forest, Name::from(upstream));
        if matches!(presence_of(forest, &name, self.answers)?, Presence::Absent) {
            return Err(forbidden(format!("namespace does not exist: {upstream}")));
        }
        if self.before().edge() != Some((kind, upstream)) {
            self.lasts(upstream, kind)?;
        }
        if forest.id(upstream).is_some_and(|id| labels_of(forest, id).leads(kind)) {
            return Ok(());
        }
        let wanted = match kind {
            EdgeKind::Parent => keys::ROOT,
            EdgeKind::Template => keys::TEMPLATE_TYPE,
        };
        Err(forbidden(format!("{upstream} is not a valid {wanted} namespace")))
    }

    /// A namespace cannot come below one that is being deleted, or below others that are deleted with it: it would leave its tree without
    /// consent when they are gone. The controller deletes a namespace some time after its `SubNamespace`.
    fn lasts(&self, upstream: &str, kind: EdgeKind) -> Check {
        let forest = self.forest;
        let ends = above(forest, upstream).into_iter().find_map(|id| {
            let name = forest.name(id);
            if forest.is_terminating(name) {
                return Some(format!("namespace {name:?}"));
            }
            forest
                .own_sub_namespace(id)
                .filter(|form| form.terminating)
                .map(|_| format!("the SubNamespace of namespace {name:?}"))
        });
        ends.map_or(Ok(()), |what| {
            Err(forbidden(format!(
                "{what} is being deleted, so {upstream:?} cannot become the {} of namespace {:?}; choose another one",
                kind.as_str(),
                &*self.request.name
            )))
        })
    }

    /// A namespace of HNC's can neither get labels of Accurate nor be named in them.
    fn is_in_one_hierarchy(&self) -> Check {
        let (old, new) = (self.before(), self.after());
        let is_new = |key: &str| new.value(key).is_some() && new.value(key) != old.value(key);
        if !PLACE.into_iter().any(is_new) {
            return Ok(());
        }
        hncs_structure_is_known(self.forest)?;
        let name = &*self.request.name;
        if self.request.is_subnamespace {
            return Err(in_hnc(self.forest, name));
        }
        not_in_hnc(self.forest, name)?;
        if self.forest.is_marked_by_hnc(name) {
            return Err(forbidden(format!(
                "the HierarchyConfiguration of namespace {name:?} sets labels or annotations, which those of accurate.cybozu.com would \
                 replace; remove its spec.labels and spec.annotations first"
            )));
        }
        new.edge().map_or(Ok(()), |(_, upstream)| not_in_hnc(self.forest, upstream))
    }

    /// The namespace becomes one that others already name.
    fn next_consent(&self) -> Check {
        let (old, new) = (self.before(), self.after());
        let comes = |kind| new.leads(kind) && !old.leads(kind);
        if comes(EdgeKind::Parent) || comes(EdgeKind::Template) {
            next_consent(self.forest, &self.request.name, self.answers)?;
            next_leave_their_tree(self.forest, &self.request.name, self.answers)
        } else {
            Ok(())
        }
    }

    /// A namespace gets objects of its upstream namespace, among them secrets, bindings and restrictions. So the right to write
    /// namespaces is not enough to give it one, or to take it away. A new namespace has no objects of other users yet.
    fn user_may_place(&self) -> Check {
        let trusts = self.forest.accurate().settings().is_some_and(|it| it.trust_namespace_editors);
        let [old, new] = [self.before().edge(), self.after().edge()];
        if trusts || old == new {
            return Ok(());
        }
        let name = &self.request.name;
        if let Some((kind, upstream)) = old {
            has_rights(&self.rights_to_leave(kind, upstream), self.answers, || {
                format!("remove the label {}={upstream} from namespace {name:?}", label(kind))
            })?;
        }
        let Some((kind, upstream)) = new else { return Ok(()) };
        let consents = (self.request.operation == Operation::Update).then(|| is_admin(name));
        let rights: Vec<_> = [may_create_below(upstream)].into_iter().chain(consents).collect();
        has_rights(&rights, self.answers, || {
            format!("set the label {}={upstream} on namespace {name:?}", label(kind))
        })
    }

    /// Restrictions come from all namespaces above, by edges of both kinds, and go with the label. So the consent of the upstream namespace
    /// is not enough: the topmost one that is left consents, too. Above one that is missing, or came back without a place in a hierarchy,
    /// the namespaces are not known: then only an admin of the cluster consents. One that is being deleted may have lost its labels.
    fn rights_to_leave(&self, kind: EdgeKind, upstream: &str) -> Vec<NamespacedRight> {
        let (forest, mut left) = (self.forest, Vec::new());
        let stays: Vec<_> = self.after().edge().map(|(_, name)| above(forest, name)).unwrap_or_default();
        let mut edge = Some((kind, Name::from(upstream)));
        let mut is_broken = false;
        while let Some((kind, name)) = edge.take() {
            let id = forest.id(&name).filter(|_| forest.has_seen(&name));
            let Some(id) = id.filter(|id| labels_of(forest, *id).leads(kind)) else {
                is_broken = true;
                break;
            };
            let stays = stays.contains(&id);
            if left.is_empty() || !(stays || left.contains(&name)) {
                left.push(name);
                let next = labels_of(forest, id).edge().map(|(kind, name)| (kind, Name::from(name)));
                is_broken = !stays && next.is_none() && forest.is_terminating(forest.name(id));
                edge = next.filter(|_| !stays);
            }
        }
        let ends = [left.first(), left.last().filter(|_| left.len() > 1)].into_iter().flatten();
        let mut rights: Vec<_> = ends.map(|name| may_delete_below(name)).collect();
        if left.is_empty() {
            rights.push(is_admin(&self.request.name));
        }
        rights.extend(is_broken.then(|| may_delete_below(NamespacedRight::ALL)));
        rights
    }

    /// Children may be deleted too if the operator allows it. A namespace that others name as their template stays in any case. One
    /// that cannot be upstream passes nothing on, so nothing is lost with it.
    fn delete(&self) -> Check {
        can_be_deleted(self.forest, &self.request.name)?;
        let cascades = self.forest.accurate().settings().is_some_and(|it| it.allow_cascading_deletion);
        let has_next = |kind| self.before().leads(kind) && self.has_next(kind);
        let has_children = || has_next(EdgeKind::Parent) || has_waiting(self.forest, &self.request.name);
        if has_next(EdgeKind::Template) || (!cascades && has_children()) {
            return Err(forbidden("child namespaces exist"));
        }
        no_template_goes_along(self.forest, &self.request.name)
    }
}

fn label(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Parent => keys::PARENT,
        EdgeKind::Template => keys::TEMPLATE,
    }
}

/// This namespace and those above it, by edges of both kinds.
fn above(forest: &Forest, name: &str) -> Vec<Id> {
    forest.id(name).map(|id| forest.tree.hop_ancestry(id).path).unwrap_or_default()
}

/// Whether other namespaces name this one, in either hierarchy.
fn is_named(forest: &Forest, name: &str) -> bool {
    forest.id(name).is_some_and(|id| !forest.tree.next_hops(id).is_empty())
        || !forest.children(name).is_empty()
}

/// Whether other namespaces name this one in an edge of this kind.
pub(in crate::accurate) fn has_next(forest: &Forest, name: &str, kind: EdgeKind) -> bool {
    let Some(id) = forest.id(name) else { return false };
    let mut edges = forest.tree.next_hops(id).iter().filter_map(|next| forest.tree.hop(*next));
    edges.any(|edge| edge.kind == kind)
}

pub(super) fn not_in_hnc(forest: &Forest, name: &str) -> Check {
    if forest.is_in_hnc(name) { Err(in_hnc(forest, name)) } else { Ok(()) }
}

fn in_hnc(forest: &Forest, name: &str) -> Verdict {
    let children: BTreeSet<Name> = forest.children(name).into_iter().collect();
    if forest.namespace_version(name).is_none() && !children.is_empty() {
        return forbidden(format!(
            "{name:?} is the missing parent of namespaces in a hierarchy of hnc.x-k8s.io, and can be in one hierarchy only; first give \
             them another parent: {}",
            listed(&children.iter().collect())
        ));
    }
    forbidden(format!(
        "namespace {name:?} is in a hierarchy of hnc.x-k8s.io, and can be in one hierarchy only; remove its parent, children and \
         anchors there first"
    ))
}

/// Whether a namespace exists. One that is excluded by name is not in the hierarchy, and the forest knows it all the same.
fn presence_of(forest: &Forest, name: &Name, answers: &Answers) -> Check<Presence> {
    if forest.has_seen(name) { Ok(Presence::Here) } else { presence(forest, name, answers) }
}

fn is_circular() -> Verdict {
    forbidden("circular reference is not permitted")
}

fn has_children(name: &str) -> Verdict {
    forbidden(format!("there are sub-namespaces under {name}"))
}
