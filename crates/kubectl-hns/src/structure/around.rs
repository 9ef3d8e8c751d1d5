//! What a user without list rights can read around one namespace: the ancestors as far as rights go, and beyond that as
//! tree labels of known namespaces show them; and all namespaces below.

use std::collections::{BTreeMap, BTreeSet};

use forest::{HierarchyFact, Name};
use hns_api::labels;

use super::{AT_ONCE, NamespaceRead, Structure, add_anchors, lists, missing, read_namespace, unreadable};
use crate::Failure;
use crate::session::Session;

/// The whole cluster with its anchors, or what the user's rights allow above and below `starts`.
///
/// # Errors
/// A request failed for a reason other than missing rights, or one of `starts` does not exist.
pub(crate) async fn surroundings(session: &Session, starts: &[String]) -> Result<Structure, Failure> {
    let Some(mut structure) = lists(session).await? else {
        let mut view = View::default();
        for start in starts {
            view.upwards(session, start).await?;
            view.downwards(session, start).await?;
        }
        return Ok(view.into_structure(starts));
    };
    if let Some(start) = starts.iter().find(|start| !structure.namespaces.contains_key(&***start)) {
        return Err(unreadable(start, &missing(start)));
    }
    if !add_anchors(session, &mut structure).await? {
        structure
            .notes
            .push("you may not list subnamespaceanchors in the whole cluster; they are omitted".into());
    }
    Ok(structure)
}

#[derive(Default)]
struct View {
    structure: Structure,
    /// The parents that tree labels show, for namespaces whose hierarchy cannot be read.
    parents: BTreeMap<Name, Name>,
    hidden: BTreeSet<Name>,
}

impl View {
    async fn upwards(&mut self, session: &Session, start: &str) -> Result<(), Failure> {
        let mut next = Some(Name::from(start));
        while let Some(name) = next.filter(|name| !self.structure.hierarchies.contains_key(name)) {
            self.add(read_namespace(session, &name).await, start)?;
            next = self.structure.forest().parent(&name).cloned();
        }
        Ok(())
    }

    async fn downwards(&mut self, session: &Session, start: &str) -> Result<(), Failure> {
        let mut next = self.structure.children(start).to_vec();
        while !next.is_empty() {
            next.retain(|name| !self.structure.hierarchies.contains_key(name));
            let mut below = Vec::new();
            for some in next.chunks(AT_ONCE) {
                for read in
                    futures::future::join_all(some.iter().map(|name| read_namespace(session, name))).await
                {
                    let name = read.name.clone();
                    self.add(read, start)?;
                    below.extend(self.structure.children(&name).iter().cloned());
                }
            }
            next = below;
        }
        Ok(())
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
        self.structure.anchors.extend(anchors.unwrap_or_default());
        let fact = match hierarchy {
            Ok(fact) => fact.unwrap_or_default(),
            Err(problem) if problem.is_forbidden() => {
                self.hidden.insert(name.clone());
                let parent = self.parents.get(&name).cloned();
                HierarchyFact { parent, ..HierarchyFact::default() }
            }
            Err(problem) => return Err(unreadable(&name, &problem)),
        };
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

    fn into_structure(self, starts: &[String]) -> Structure {
        let Self { mut structure, hidden, .. } = self;
        structure.notes.push(format!(
            "you may not list namespaces and hierarchyconfigurations in the whole cluster; only namespaces above and below {} are shown",
            starts.join(", ")
        ));
        if !hidden.is_empty() {
            let hidden: Vec<&str> = hidden.iter().map(|it| &**it).collect();
            structure.notes.push(format!(
                "you may not read the hierarchy of {}; the parent is taken from tree labels, if there are any",
                hidden.join(", ")
            ));
        }
        structure
    }
}

#[cfg(test)]
mod tests {
    use forest::NamespaceFact;

    use super::*;
    use crate::failure::Problem;

    fn forbidden() -> Problem {
        let message = "x is forbidden: User \"u\" cannot get";
        Problem::Refused(Box::new(kube::core::Status::failure(message, "Forbidden").with_code(403)))
    }

    #[test]
    fn tree_labels_show_ancestors_that_cannot_be_read() {
        let labels = [("leaf", "0"), ("mid", "1"), ("top", "2")];
        let labels = labels.map(|(name, depth)| (labels::tree_label(name), depth));
        let fact =
            NamespaceFact { name: "leaf".into(), labels: labels.into_iter().collect(), ..Default::default() };
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
        let structure = view.into_structure(&["leaf".into()]);
        assert_eq!(structure.forest().ancestry("leaf").join(" "), "leaf mid top");
        assert!(structure.notes[1].contains("leaf, mid, top"), "{:?}", structure.notes);
    }
}
