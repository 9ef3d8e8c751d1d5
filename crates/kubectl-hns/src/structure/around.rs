//! What a user without list rights can read around some namespaces: the ancestors as far as rights go, and beyond that as
//! tree labels of known namespaces show them; and all namespaces below.

use std::collections::{BTreeMap, BTreeSet};

use forest::{HierarchyFact, Name};
use futures::future::join_all;
use hns_api::{anchor_states, labels};
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;

use super::{Extent, HIERARCHIES, NamespaceRead, Structure, read_namespace, unreadable};
use crate::Failure;
use crate::failure::Problem;
use crate::session::{AT_ONCE, Session};

/// What the user's rights allow; `unlisted` is what they may not list.
///
/// # Errors
/// A request failed for a reason other than missing rights, or a namespace does not exist, or nothing of one that is to be drawn
/// may be read.
pub(super) async fn read(
    session: &Session,
    extent: Extent<'_>,
    unlisted: &str,
) -> Result<Structure, Failure> {
    let own = [session.namespace.clone()];
    let (starts, upwards) = match extent {
        Extent::Below(starts) => (starts, false),
        Extent::Around(starts) => (starts, true),
        Extent::All => (&own[..], true),
    };
    let mut view = View { lists_namespaces: unlisted == HIERARCHIES, ..View::default() };
    for start in starts {
        if upwards {
            view.upwards(session, start).await?;
        }
        view.downwards(session, start).await?;
    }
    if !matches!(extent, Extent::Around(_)) {
        let seen = starts.iter().try_for_each(|start| view.has_seen(start));
        seen.map_err(|failure| match extent {
            Extent::All => nothing_of_own(&session.namespace, unlisted),
            _ => failure,
        })?;
    }
    Ok(view.into_structure(starts, upwards, unlisted))
}

/// The failure if everything was requested, and not even the user's own namespace can be read.
fn nothing_of_own(namespace: &str, unlisted: &str) -> Failure {
    Failure::new(format!(
        "Error: you may not list {unlisted} in the whole cluster, so only the tree around one namespace could be shown; \
         it is {namespace}, and you may not read it either"
    ))
    .with_hint("Name a namespace of yours with -n.")
}

#[derive(Default)]
struct View {
    structure: Structure,
    /// The parents of namespaces whose hierarchy cannot be read: tree labels show them, or the parents list them or have anchors of
    /// them.
    parents: BTreeMap<Name, Name>,
    /// Why the hierarchy of a namespace cannot be read.
    hidden: BTreeMap<Name, Problem>,
    /// Whether the user may list the namespaces of the whole cluster.
    lists_namespaces: bool,
}

impl View {
    async fn upwards(&mut self, session: &Session, start: &str) -> Result<(), Failure> {
        let mut next = Some(Name::from(start));
        while let Some(name) = next.filter(|name| !self.structure.hierarchies.contains_key(name)) {
            self.add(read_namespace(session, &name).await, start)?;
            // A user who may not read namespaces cannot see that the parent does not exist, but the controller reports it.
            let forest = self.structure.forest();
            let is_missing = self.structure.missing_parent(&forest, &name).is_some();
            next = forest.parent(&name).filter(|_| !is_missing).cloned();
        }
        Ok(())
    }

    async fn downwards(&mut self, session: &Session, start: &str) -> Result<(), Failure> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![Name::from(start)]);
        if self.lists_namespaces {
            self.add_labelled(session, start).await?;
        }
        while !next.is_empty() {
            next.retain(|name| seen.insert(name.clone()));
            let unread = next.iter().filter(|name| !self.structure.hierarchies.contains_key(*name));
            let unread: Vec<Name> = unread.cloned().collect();
            for some in unread.chunks(AT_ONCE) {
                for read in join_all(some.iter().map(|name| read_namespace(session, name))).await {
                    self.add(read, start)?;
                }
            }
            next = next.iter().flat_map(|name| self.children(name)).collect();
        }
        Ok(())
    }

    /// Adds the parents that tree labels show below a namespace.
    async fn add_labelled(&mut self, session: &Session, start: &str) -> Result<(), Failure> {
        let below = ListParams::default().labels(&labels::tree_label(start));
        let found = session.list_metadata(&session.all::<Namespace>(), &below).await;
        for namespace in found.map_err(|it| Failure::because("namespaces cannot be listed", &it))? {
            let fact = ingest::namespace(&namespace.metadata);
            self.add_parents(&fact.name, fact.labels.iter());
        }
        Ok(())
    }

    /// The children that the status lists or, if it cannot be read, that tree labels and anchors show.
    fn children(&self, name: &Name) -> Vec<Name> {
        if !self.hidden.contains_key(name) {
            return self.structure.listed_children(name).to_vec();
        }
        self.parents.iter().filter(|(_, parent)| *parent == name).map(|(child, _)| child.clone()).collect()
    }

    /// An error if nothing of this namespace can be read.
    fn has_seen(&self, name: &str) -> Result<(), Failure> {
        match self.hidden.get(name) {
            Some(problem) if !self.structure.namespaces.contains_key(name) => Err(unreadable(name, problem)),
            _ => Ok(()),
        }
    }

    /// Adds what was read. A namespace that does not exist has no hierarchy either and stays unknown.
    fn add(&mut self, read: NamespaceRead, start: &str) -> Result<(), Failure> {
        let NamespaceRead { name, namespace, hierarchy, anchors } = read;
        match namespace {
            Ok(fact) => {
                self.add_parents(&name, fact.labels.iter());
                self.structure.namespaces.insert(name.clone(), fact);
            }
            Err(problem) if problem.is_not_found() && *name != *start => return Ok(()),
            Err(problem) if problem.is_forbidden() => {}
            Err(problem) => return Err(unreadable(&name, &problem)),
        }
        match anchors {
            Ok(anchors) => {
                let ok = Some(anchor_states::OK);
                for (_, anchor) in anchors.iter().filter(|(_, anchor)| anchor.state.as_deref() == ok) {
                    self.parents.entry(anchor.name.clone()).or_insert_with(|| name.clone());
                }
                self.structure.anchors.extend(anchors);
            }
            Err(_) => drop(self.structure.without_anchors.insert(name.clone())),
        }
        let fact = match hierarchy {
            Ok(fact) => fact.unwrap_or_default(),
            Err(problem) if problem.is_forbidden() => {
                self.hidden.insert(name.clone(), problem);
                let parent = self.parents.get(&name).cloned();
                HierarchyFact { parent, ..HierarchyFact::default() }
            }
            Err(problem) => return Err(unreadable(&name, &problem)),
        };
        for child in &fact.status.children {
            self.parents.entry(child.clone()).or_insert_with(|| name.clone());
        }
        self.structure.hierarchies.insert(name, fact);
        Ok(())
    }

    fn add_parents<'a>(&mut self, name: &Name, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        let depth = |(key, value): (&str, &str)| {
            Some((value.parse::<usize>().ok()?, Name::from(labels::tree_label_namespace(key)?)))
        };
        let chain: BTreeMap<usize, Name> = labels.filter_map(depth).chain([(0, name.clone())]).collect();
        for (depth, child) in &chain {
            if let Some(parent) = chain.get(&(depth + 1)) {
                self.parents.entry(child.clone()).or_insert_with(|| parent.clone());
            }
        }
    }

    fn into_structure(self, starts: &[String], upwards: bool, unlisted: &str) -> Structure {
        let Self { mut structure, hidden, .. } = self;
        let without_anchors = structure.without_anchors.clone();
        structure.presume_anchors(|parent| without_anchors.contains(parent));
        let reach = if upwards { "above and below" } else { "below" };
        structure.notes.push(format!(
            "you may not list {unlisted} in the whole cluster; only namespaces {reach} {} are read",
            starts.join(", ")
        ));
        structure.hidden = hidden.into_keys().collect();
        structure.remove_missing_parents();
        if !structure.hidden.is_empty() {
            let hidden: Vec<&str> = structure.hidden.iter().map(|it| &**it).collect();
            structure.notes.push(format!(
                "you may not read the hierarchy of {}; what is known of it comes from the namespaces around",
                hidden.join(", ")
            ));
        }
        structure
    }
}

#[cfg(test)]
mod tests {
    use forest::NamespaceFact;
    use hns_api::annotations;

    use super::*;
    use crate::failure::Problem;
    use crate::structure::tests::sketch;

    fn forbidden() -> Problem {
        let message = "x is forbidden: User \"u\" cannot get";
        Problem::Refused(Box::new(kube::core::Status::failure(message, "Forbidden").with_code(403)))
    }

    #[test]
    fn tree_labels_show_ancestors_that_cannot_be_read() {
        let labels = [("leaf", "0"), ("mid", "1"), ("top", "2")];
        let labels = labels.map(|(name, depth)| (labels::tree_label(name), depth));
        let of = [(annotations::SUBNAMESPACE_OF, "mid")];
        let fact = NamespaceFact {
            name: "leaf".into(),
            labels: labels.into_iter().collect(),
            annotations: of.into_iter().collect(),
            ..Default::default()
        };
        let mut view = View::default();
        let read = |name: &str, namespace| NamespaceRead {
            name: name.into(),
            namespace,
            hierarchy: Err(forbidden()),
            anchors: Err(forbidden()),
        };
        view.add(read("leaf", Ok(fact)), "leaf").unwrap();
        view.add(read("mid", Err(forbidden())), "leaf").unwrap();
        view.add(read("top", Err(forbidden())), "leaf").unwrap();
        let structure = view.into_structure(&["leaf".into()], true, "namespaces");
        assert!(
            structure.notes[0].starts_with("you may not list namespaces in the whole"),
            "{:?}",
            structure.notes
        );
        assert_eq!(structure.hidden.len(), 3);
        assert_eq!(structure.forest().ancestry("leaf").join(" "), "leaf mid top");
        assert!(structure.forest().has_anchor("mid", "leaf"), "a subnamespace has an anchor");
        assert!(structure.notes[1].contains("leaf, mid, top"), "{:?}", structure.notes);
    }

    /// Where the hierarchy can be read, its status decides.
    #[test]
    fn tree_labels_show_children_of_what_cannot_be_read() {
        for (is_hidden, wanted) in [(true, &["mid"][..]), (false, &["other"])] {
            let mut view = View { structure: sketch(&["top", "other < top"]), ..View::default() };
            let labels = [("leaf", "0"), ("mid", "1"), ("top", "2")];
            let labels = labels.map(|(name, depth)| (labels::tree_label(name), depth));
            view.add_parents(&"leaf".into(), labels.iter().map(|(key, depth)| (&**key, *depth)));
            if is_hidden {
                view.hidden.insert("top".into(), forbidden());
            }
            assert_eq!(view.children(&"top".into()).join(" "), wanted.join(" "));
        }
    }

    /// `leaf` names `gone`, and its labels still say that `gone` was below `top`.
    #[test]
    fn a_parent_that_is_reported_as_missing_does_not_exist() {
        let missing = "ActivitiesHalted (ParentMissing): The parent \"gone\" does not exist";
        let other = "ActivitiesHalted (ParentMissing): The parent \"old\" does not exist";
        let halted = "ActivitiesHalted (InCycle): Namespace is a member of the cycle: \"gone\"";
        for (condition, gone_is_read, wanted) in [
            (missing, false, "leaf gone"),
            (missing, true, "leaf gone top"),
            (other, false, "leaf gone top"),
            (halted, false, "leaf gone top"),
        ] {
            let structure = sketch(&["top", &format!("leaf < gone ! {condition}")]);
            let mut view = View { structure, ..View::default() };
            view.parents.insert("gone".into(), "top".into());
            let namespace = if gone_is_read {
                Ok(NamespaceFact { name: "gone".into(), ..Default::default() })
            } else {
                Err(forbidden())
            };
            let (hierarchy, anchors) = (Err(forbidden()), Err(forbidden()));
            view.add(NamespaceRead { name: "gone".into(), namespace, hierarchy, anchors }, "gone").unwrap();
            let structure = view.into_structure(&["leaf".into()], true, "namespaces");
            let is_there = wanted.ends_with("top");
            assert_eq!(structure.forest().ancestry("leaf").join(" "), wanted, "{condition}");
            assert_eq!(structure.hidden.contains("gone"), is_there, "{condition}");
            assert_eq!(structure.notes.len() == 2, is_there, "{:?}", structure.notes);
        }
    }
}
