//! What a change needs of Accurate's hierarchy: all `SubNamespaces` or, for a user who may not list the whole cluster, what can be
//! found above and below some namespaces, by labels and by `SubNamespaces`.

use std::collections::BTreeSet;

use forest::Name;
use forest::accurate::SubNamespaceFact;
use hns_api::accurate::labels::{PARENT, TEMPLATE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::{list, unlisted};
use crate::Failure;
use crate::session::Session;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// The `SubNamespaces`, each with its namespace.
    pub(crate) forms: Vec<(Name, SubNamespaceFact)>,
    /// The namespaces concerned, and those above and below; none if the whole cluster is known.
    pub(crate) namespaces: Vec<Name>,
    /// The rights that the user lacks to know all of them, as clauses.
    pub(crate) lacking: Vec<String>,
}

/// Reads it; `is_whole` means that all namespaces are known.
pub(crate) async fn read(session: &Session, concerned: &[&str], is_whole: bool) -> Result<Around, Failure> {
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
    let edges = match listed {
        Ok(all) => all.into_iter().flat_map(|it| edges(it.metadata)).collect(),
        Err(problem) if problem.is_forbidden() => {
            around.lacking.push("list namespaces".to_owned());
            Vec::new()
        }
        Err(problem) => return Err(Failure::because("namespaces cannot be listed", &problem)),
    };
    let is_listed = around.lacking.is_empty();
    let mut walk = Walk { session, are_known, is_listed, around, edges, hidden: Vec::new() };
    for name in concerned {
        walk.go((*name).into(), Walk::above).await?;
        walk.go((*name).into(), Walk::below).await?;
    }
    let Walk { mut around, hidden, .. } = walk;
    if !hidden.is_empty() {
        around.lacking.push(format!("list the SubNamespaces in {}", hidden.join(", ")));
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
    /// Whether all `SubNamespaces` are known.
    are_known: bool,
    /// Whether the edges of all namespaces are known.
    is_listed: bool,
    around: Around,
    /// Namespaces and their upstream namespaces.
    edges: Vec<(Name, Name)>,
    /// The namespaces whose `SubNamespaces` the user may not list.
    hidden: Vec<String>,
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

    /// Goes from a namespace to the next ones.
    async fn go(&mut self, start: Name, next: fn(&Self, &str) -> Vec<Name>) -> Result<(), Failure> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
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
            let found = self.session.call(self.session.all::<Namespace>().get_metadata(name)).await;
            self.edges.extend(found.into_iter().flat_map(|it| edges(it.metadata)));
        }
        if !self.are_known {
            match list(self.session, Some(name)).await {
                Ok(found) => self.around.forms.extend(found),
                Err(problem) if problem.is_forbidden() => self.hidden.push(name.to_string()),
                Err(problem) => return Err(unlisted(&problem)),
            }
        }
        Ok(())
    }
}
