//! `plan delete`: the deletion of a namespace, or of its anchor.

use clap::Args;
use forest::preview::Intent;
use forest::{AnchorFact, Forest, Name};
use hns_api::SubnamespaceAnchor;
use hns_api::accurate::SubNamespace;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt;

use super::Planned;
use crate::cluster_preview::{ClusterPreview, Decision, Document};
use crate::commands::accurate::{plan as accurate_plan, refusals};
use crate::commands::hierarchy::AllowingAncestor;
use crate::commands::{delete, hierarchy};
use crate::installation::is_definition_deleted;
use crate::session::Session;
use crate::structure::Structure;
use crate::user_rights::Right;
use crate::{Failure, structure};

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// Allow cascading deletion first.
    #[arg(short, long = "allowCascadingDeletion")]
    allow: bool,
}

/// What to do instead of a deletion that would be refused.
pub(super) async fn hint(arguments: &Delete, refused: &Document, session: &Session) -> Option<String> {
    let namespace = &*arguments.namespace;
    let reason = refused.verdict.message.as_deref().unwrap_or_default();
    if delete::names_permission(reason) {
        let way = delete::despite_children(namespace, reason);
        return Some(match hierarchy::refusal_to_allow(session, namespace).await {
            Some(why) => format!("{way}\n{}", delete::not_at_present(&why)),
            None => way,
        });
    }
    if reason.ends_with(refusals::CHILDREN_EXIST) {
        return Some(refusals::despite_children(session, namespace).await);
    }
    let lacks_right = format!("may not {}", Right::namespace("delete", namespace));
    let no_anchor = format!("{} {namespace:?} not found", SubnamespaceAnchor::crd_name());
    if session.names_namespace && reason.ends_with(&no_anchor) {
        return sub_namespace(session, namespace).await;
    }
    if session.names_namespace || !reason.ends_with(&lacks_right) {
        return None;
    }
    let found = session.call(session.all::<Namespace>().get_metadata(namespace)).await;
    parent_to_name(namespace, found.ok().map(|it| it.metadata).as_ref())
}

/// How to delete a namespace by its `SubNamespace`, if the namespace that was named with -n has one of that name.
async fn sub_namespace(session: &Session, name: &str) -> Option<String> {
    let parent = &*session.namespace;
    let found = session.call(session.within::<SubNamespace>(parent).get_metadata_opt(name)).await;
    found.ok().flatten().map(|_| {
        let resource = SubNamespace::crd_name();
        format!(
            "SubNamespace {name} in {parent} is of Accurate's hierarchy: `kubectl delete {resource} {name} -n {parent}` deletes it, and its \
             namespace with it."
        )
    })
}

/// What a user may try who may not delete the namespace; `found` is its metadata, if they may read it.
fn parent_to_name(name: &str, found: Option<&ObjectMeta>) -> Option<String> {
    const NEEDS: &str = "who may delete the anchor there needs no right on the namespace";
    let Some(found) = found else {
        return Some(format!("If {name} is a subnamespace, name its parent with -n: {NEEDS}."));
    };
    let parent = structure::subnamespace_of(found)?;
    Some(format!("{name} is a subnamespace of {parent}: use -n {parent}; {NEEDS}."))
}

pub(super) async fn plan(arguments: &Delete, session: &Session) -> Result<Planned, Failure> {
    let name = &*arguments.namespace;
    let named = session.names_namespace.then_some(&*session.namespace);
    let cluster_preview = Box::pin(ClusterPreview::open_to_delete(session, named, name)).await?;
    let forest = cluster_preview.forest();
    let structure = cluster_preview.structure();
    // The forest does not know it of an excluded namespace.
    if structure.is_terminating(name) {
        let change = vec![format!("The namespace {name} is being deleted already")];
        return Ok((change, cluster_preview.try_all(&[]).await?));
    }
    if structure.namespaces.contains_key(name) {
        is_in(named, forest, name)?;
    }
    let holder = holder(&cluster_preview, named, name);
    let stays =
        holder.as_deref().and_then(|parent| delete::stays((parent, name), structure, forest.settings()));
    if holder.as_deref().is_some_and(|parent| has_begun((parent, name), structure, stays.is_some()))
        && !is_definition_deleted::<SubnamespaceAnchor>(session).await
    {
        let change = vec![format!("The subnamespace {name} is being deleted already")];
        return Ok((change, cluster_preview.try_all(&[]).await?));
    }
    let mut change = Vec::new();
    let mut intents = Vec::new();
    // Where the namespace stays, those below it stay, too.
    if arguments.allow
        && stays.is_none()
        && let Some(allow) = permission(session, name).await?
    {
        change.push(format!("Cascading deletion of {name} would be allowed"));
        intents.push(allow);
    }
    let above = holder.clone().or_else(|| forest.parent(name).cloned()).unwrap_or_default();
    if let Some(parent) = holder {
        change.push(format!("The subnamespace anchor {name} in {parent} would be deleted"));
        intents.push(Intent::DeleteAnchor { parent, child: name.into() });
    } else {
        change.push(format!("The namespace {name} would be deleted"));
        intents.push(Intent::DeleteNamespace { name: name.into() });
    }
    let hidden = delete::unread(structure, &above);
    let note = below_accurate(forest, name);
    let mut result = cluster_preview.try_all(&intents).await?;
    // What is refused has no effect.
    let is_refused = result.decisions.iter().any(Decision::is_refusal);
    if !is_refused {
        result.notes.extend(stays.into_iter().chain(hidden));
        result.notes.extend(accurate_plan::orphaned(&result.forest, &result.outcome, &result.unread));
    }
    result.notes.extend(note);
    Ok((change, result))
}

/// The namespace whose anchor is deleted: the one that is named with -n, or the parent.
fn holder(cluster_preview: &ClusterPreview<'_>, named: Option<&str>, name: &str) -> Option<Name> {
    let forest = cluster_preview.forest();
    // Of a namespace that cannot be read, the anchor alone says that it is a subnamespace.
    let may_be_sub = forest.is_subnamespace(name) || cluster_preview.is_unreadable(name);
    let is_read = cluster_preview.structure().namespaces.contains_key(name);
    let holder = named.map(Name::from).filter(|parent| !is_read || forest.has_anchor(parent, name));
    let above = || forest.parent(name).filter(|parent| may_be_sub && forest.has_anchor(parent, name));
    holder.or_else(|| above().cloned())
}

/// Whether the anchor is being deleted, and its namespace, unless that `stays`, with it. The controller keeps trying.
fn has_begun((parent, name): (&str, &str), structure: &Structure, stays: bool) -> bool {
    let is_going =
        |(of, anchor): &(Name, AnchorFact)| **of == *parent && *anchor.name == *name && anchor.terminating;
    !stays && structure.anchors.iter().any(is_going)
}

/// The change that allows cascading deletion, unless it is allowed already, here or above.
async fn permission(session: &Session, name: &str) -> Result<Option<Intent>, Failure> {
    let present = hierarchy::spec(&hierarchy::read(session, name).await?);
    let is_allowed = present.allows_cascading_deletion
        || matches!(
            hierarchy::allowing_ancestor(session, name, present.parent.clone()).await,
            AllowingAncestor::AllowedBy(_)
        );
    Ok((!is_allowed).then(|| Intent::SetHierarchy {
        namespace: name.into(),
        parent: present.parent.as_deref().map(Name::from),
        allow_cascading_deletion: true,
    }))
}

/// A note that another command makes the deletion, if the namespace is a sub-namespace of Accurate's API with its
/// `SubNamespace`.
fn below_accurate(forest: &Forest, name: &str) -> Option<String> {
    let parent = forest.accurate_parent(name)?;
    forest.has_sub_namespace(parent, name).then(|| delete::of_accurate((parent, name), forest.settings()))
}

/// Fails as `delete` does if there is no anchor of the namespace in the one that was named with -n.
fn is_in(named: Option<&str>, forest: &Forest, name: &str) -> Result<(), Failure> {
    let Some(named) = named.filter(|it| !forest.has_anchor(it, name)) else { return Ok(()) };
    let parent = forest.parent(name).filter(|it| forest.is_subnamespace(name) && ***it != *named);
    let hint = below_accurate(forest, name)
        .or_else(|| parent.map(|it| delete::of_another(name, it)))
        .unwrap_or_else(|| {
            format!("Without -n, the plan shows the effects of `kubectl delete namespace {name}`.")
        });
    Err(Failure::new(format!("Error: {name} has no subnamespace anchor in {named}")).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::Settings;
    use forest::accurate::{Fact, SubNamespaceFact};
    use hns_api::accurate::labels::PARENT;
    use hns_api::annotations;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn only_of_a_subnamespace_the_parent_is_to_be_named() {
        let of = |parent: &str| ObjectMeta {
            annotations: Some([(annotations::SUBNAMESPACE_OF.to_owned(), parent.to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert!(
            parent_to_name("n", Some(&of("p"))).unwrap().starts_with("n is a subnamespace of p: use -n p;")
        );
        assert!(parent_to_name("n", None).unwrap().starts_with("If n is a subnamespace, name its parent"));
        assert_eq!(parent_to_name("n", Some(&ObjectMeta::default())), None);
    }

    #[test]
    fn another_namespace_than_the_parent_is_not_taken() {
        let mut structure = sketch(&["p", "[s] n < p", "[s] lost < p", "full < p", "other"]);
        let anchor = AnchorFact { name: "n".into(), ..AnchorFact::default() };
        structure.anchors = vec![("p".into(), anchor)];
        let forest = structure.forest();
        for (named, name, fails) in [
            (Some("other"), "n", true),
            (Some("p"), "n", false),
            (None, "n", false),
            (Some("other"), "full", true),
            (None, "full", false),
            (Some("p"), "lost", true),
        ] {
            assert_eq!(is_in(named, &forest, name).is_err(), fails, "{named:?} {name}");
        }
        let hint = is_in(Some("other"), &forest, "n").unwrap_err().hint.unwrap();
        assert_eq!(hint, "n is a subnamespace of p: use -n p.");
    }

    #[test]
    fn a_deletion_that_the_controller_has_begun_is_not_planned() {
        let mut structure = sketch(&["p", "[s] n < p"]);
        for (holder, terminating, stays, wanted) in [
            ("p", true, false, true),
            ("p", true, true, false),
            ("p", false, false, false),
            ("other", true, false, false),
        ] {
            let anchor = AnchorFact { name: "n".into(), terminating, ..AnchorFact::default() };
            structure.anchors = vec![(holder.into(), anchor)];
            assert_eq!(has_begun(("p", "n"), &structure, stays), wanted, "{holder} {terminating} {stays}");
        }
        structure.namespaces.get_mut("n").unwrap().terminating = true;
        let settings = Settings::new("home", ["n"], ".*").unwrap();
        let is_known = structure.forest_under(Arc::new(settings)).is_terminating("n");
        assert_eq!((structure.is_terminating("n"), is_known), (true, false), "an excluded namespace");
    }

    #[test]
    fn a_sub_namespace_of_accurate_is_deleted_by_another_command() {
        let mut structure = sketch(&["shop", "w4"]);
        let namespace = structure.namespaces.get_mut("w4").unwrap();
        namespace.labels = [(PARENT, "shop")].into_iter().collect();
        let empty = || Forest::unconfigured(Arc::new(structure::settings()));
        let settings = Settings::new("home", ["shop"], ".*").unwrap();
        let with_label = || structure.put_into(empty().with_accurate(Arc::default()));
        let excluding = Forest::unconfigured(Arc::new(settings)).with_accurate(Arc::default());
        let with_form = |mut forest: Forest| {
            let form = SubNamespaceFact { name: "w4".into(), ..SubNamespaceFact::default() };
            forest.apply(Fact::SubNamespaces(vec![("shop".into(), form)]));
            forest
        };
        let command = "`kubectl accurate sub delete w4` deletes";
        for (forest, wanted) in [
            (with_form(with_label()), Some("it.")),
            (with_form(structure.put_into(excluding)), Some("only the SubNamespace;")),
            (with_label(), None),
            (structure.put_into(empty()), None),
        ] {
            let note = below_accurate(&forest, "w4");
            let is_right = |note: &str| wanted.is_some_and(|it| note.contains(&format!("{command} {it}")));
            assert_eq!(note.as_deref().map(is_right), wanted.map(|_| true), "{note:?}");
            assert_eq!(below_accurate(&forest, "shop"), None);
        }
    }
}
