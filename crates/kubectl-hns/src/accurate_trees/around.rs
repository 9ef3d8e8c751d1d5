//! What a change needs of Accurate's hierarchy: all `SubNamespaces` or, for a user who may not list the whole cluster, what can be
//! found by labels and by `SubNamespaces`: above the namespaces concerned, and below those that change. Others have no part in the change.

use std::collections::BTreeSet;

use forest::accurate::SubNamespaceFact;
use forest::preview::Intent;
use forest::{Name, NamespaceFact};
use hns_api::accurate::labels::{PARENT, TEMPLATE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::{get, is_labelled, list, unlisted};
use crate::Failure;
use crate::session::Session;
use crate::structure::Structure;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// The `SubNamespaces`, each with its namespace.
    pub(crate) forms: Vec<(Name, SubNamespaceFact)>,
    /// The namespaces concerned, those above, and those below the changed ones; none if the whole cluster is known.
    pub(crate) namespaces: Vec<Name>,
    /// Those whose `SubNamespaces` the user may not list.
    pub(crate) hidden: Vec<Name>,
    /// The rights that the user lacks to know all of them, as clauses.
    pub(crate) lacking: Vec<String>,
}

/// The namespaces whose place in Accurate's hierarchy the changes set.
pub(crate) fn changed(intents: &[Intent]) -> Vec<&str> {
    let names = intents.iter().filter_map(|intent| match intent {
        Intent::Label { namespace: name, .. }
        | Intent::CreateSubNamespace { child: name, .. }
        | Intent::DeleteSubNamespace { child: name, .. } => Some(name),
        _ => None,
    });
    names.map(|it| &**it).collect()
}

/// Whether the namespace is in Accurate's hierarchy, by its labels or by those of others.
pub(crate) fn is_in_tree(structure: &Structure, name: &str) -> bool {
    let labels = |name: &str| structure.namespaces.get(name).map(|it| &it.labels);
    let names_it = |key: &str, it: &NamespaceFact| it.labels.get(key) == Some(name);
    labels(name).is_some_and(|it| is_labelled(|key| it.get(key)))
        || structure.namespaces.values().any(|it| names_it(PARENT, it) || names_it(TEMPLATE, it))
}

/// Reads it; `is_whole` means that all namespaces are known. Those `changed` are also `concerned`, except one that is created.
pub(crate) async fn read(
    session: &Session,
    concerned: &[&str],
    changed: &[&str],
    is_whole: bool,
) -> Result<Around, Failure> {
    let mut around = Around::default();
    let are_known = match list(session, None).await {
        Ok(all) => {
            around.forms = all;
            true
        }
        Err(problem) if problem.is_forbidden() => false,
        Err(problem) => return Err(unlisted(&problem)),
    };
    if is_whole && are_known {
        return Ok(around);
    }
    let listed = session.list_metadata(&session.all::<Namespace>(), &ListParams::default()).await;
    let (edges, is_listed) = match listed {
        Ok(all) => (all.into_iter().flat_map(|it| edges(it.metadata)).collect(), true),
        Err(problem) if problem.is_forbidden() => (Vec::new(), false),
        Err(problem) => return Err(Failure::because("namespaces cannot be listed", &problem)),
    };
    // The preview itself asks what waits for a namespace that is created.
    if !is_listed && changed.iter().any(|it| concerned.contains(it)) {
        around.lacking.push("list namespaces".to_owned());
    }
    let unread = Vec::new();
    let mut walk = Walk { session, changed, are_known, is_listed, around, edges, unread };
    for name in concerned {
        walk.go(vec![(*name).into()], Walk::above).await?;
    }
    for name in changed {
        walk.go(walk.below(name), Walk::below).await?;
    }
    let Walk { mut around, unread, .. } = walk;
    if !around.hidden.is_empty() {
        around.lacking.push(format!("list the SubNamespaces in {}", around.hidden.join(", ")));
    }
    if !unread.is_empty() {
        around.lacking.push(format!(
            "read the labels and annotations of {}, on which more effects can depend",
            unread.join(", ")
        ));
    }
    Ok(around)
}

/// A namespace with each that its labels name.
fn edges(metadata: ObjectMeta) -> Vec<(Name, Name)> {
    let name: Name = metadata.name.unwrap_or_default().as_str().into();
    let labels = metadata.labels.unwrap_or_default();
    let named = [PARENT, TEMPLATE].into_iter().filter_map(|key| labels.get(key)).filter(|it| !it.is_empty());
    named.map(|upstream| (name.clone(), upstream.as_str().into())).collect()
}

struct Walk<'a> {
    session: &'a Session,
    /// Whose `SubNamespaces` are read by name where the user may not list them.
    changed: &'a [&'a str],
    /// Whether all `SubNamespaces` are known.
    are_known: bool,
    /// Whether the edges of all namespaces are known.
    is_listed: bool,
    around: Around,
    /// Namespaces and their upstream namespaces.
    edges: Vec<(Name, Name)>,
    /// Namespaces that the user may not read.
    unread: Vec<Name>,
}

impl Walk<'_> {
    fn above(&self, name: &str) -> Vec<Name> {
        self.edges.iter().filter(|(it, _)| **it == *name).map(|(_, above)| above.clone()).collect()
    }

    fn below(&self, name: &str) -> Vec<Name> {
        let named = self.edges.iter().filter(|(_, above)| **above == *name).map(|(it, _)| it);
        let asked = self.around.forms.iter().filter(|(parent, _)| **parent == *name);
        named.chain(asked.map(|(_, form)| &form.name)).cloned().collect()
    }

    /// Goes from some namespaces to the next ones.
    async fn go(&mut self, mut open: Vec<Name>, next: fn(&Self, &str) -> Vec<Name>) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if seen.insert(name.clone()) {
                self.visit(&name).await?;
                open.extend(next(self, &name));
            }
        }
        Ok(())
    }

    /// Reads what is not known of a namespace. Who may not read one sees no further upwards.
    async fn visit(&mut self, name: &Name) -> Result<(), Failure> {
        if self.around.namespaces.contains(name) {
            return Ok(());
        }
        self.around.namespaces.push(name.clone());
        if !self.is_listed {
            match self.session.call(self.session.all::<Namespace>().get_metadata(name)).await {
                Ok(found) => self.edges.extend(edges(found.metadata)),
                Err(problem) if problem.is_forbidden() => self.unread.push(name.clone()),
                Err(_) => {}
            }
        }
        if !self.are_known {
            match list(self.session, Some(name)).await {
                Ok(found) => self.around.forms.extend(found),
                Err(problem) if problem.is_forbidden() => {
                    for changed in self.changed {
                        self.around.forms.extend(get(self.session, name, changed).await);
                    }
                    self.around.hidden.push(name.clone());
                }
                Err(problem) => return Err(unlisted(&problem)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forest::Labels;
    use hns_api::accurate::labels::{TYPE, TYPE_ROOT};

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn labels_tell_what_is_in_a_tree() {
        let mut structure = sketch(&["root", "sub", "lost", "template", "instance", "other"]);
        for (name, label) in [
            ("root", (TYPE, TYPE_ROOT)),
            ("sub", (PARENT, "root")),
            ("lost", (PARENT, "gone")),
            ("instance", (TEMPLATE, "template")),
        ] {
            structure.namespaces.get_mut(name).unwrap().labels = [label].into_iter().collect();
        }
        for (name, wanted) in [
            ("root", true),
            ("sub", true),
            ("gone", true),
            ("template", true),
            ("instance", true),
            ("other", false),
        ] {
            assert_eq!(is_in_tree(&structure, name), wanted, "{name}");
        }
    }

    #[test]
    fn the_parent_of_a_created_namespace_does_not_change() {
        let (parent, child): (Name, Name) = ("p".into(), "c".into());
        let (labels, annotations) = (Labels::default(), Labels::default());
        let delete = Intent::DeleteSubNamespace { parent: parent.clone(), child: child.clone() };
        let create = Intent::CreateSubNamespace { parent, child, labels, annotations };
        let label = Intent::Label { namespace: "n".into(), labels: Vec::new() };
        for (intents, wanted) in
            [(vec![create], vec!["c"]), (vec![label, delete], vec!["n", "c"]), (Vec::new(), Vec::new())]
        {
            assert_eq!(changed(&intents), wanted);
        }
    }
}
