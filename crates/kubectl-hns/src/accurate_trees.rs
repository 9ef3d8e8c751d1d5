//! Reads Accurate's hierarchy into a forest, with the same conversion to facts as the controller.

pub(crate) mod around;

use std::sync::Arc;

use forest::accurate::{Fact as AccurateFact, SubNamespaceFact};
use forest::{Forest, Name, NamespaceFact};
use hns_api::accurate::SubNamespace;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE};
use hns_cluster::api::Api;
use hns_cluster::ingest;
use hns_cluster::settings::SharedSettings;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};

use crate::commands::accurate::ENABLE;
use crate::failure::Problem;
use crate::session::Session;
use crate::structure;
use crate::{Failure, published};

/// All namespaces and `SubNamespaces` of the cluster.
pub(crate) struct AccurateTrees {
    pub(crate) namespaces: Vec<NamespaceFact>,
    /// Each with its namespace.
    pub(crate) forms: Vec<(Name, SubNamespaceFact)>,
    /// Both, with HNC's hierarchy.
    pub(crate) forest: Forest,
}

/// A note that the namespace is in a hierarchy that `kubectl hns` does not show, if Accurate's API is enabled; `command` shows it.
pub(crate) async fn note(session: &Session, namespace: &NamespaceFact, command: &str) -> Option<String> {
    is_in(session, &namespace.name, |key| namespace.labels.get(key)).await.then(|| {
        format!(
            "{} is in a hierarchy of Accurate, which is not shown here: see `kubectl {command}`",
            namespace.name
        )
    })
}

/// The same about any of these namespaces; `commands` show it.
pub(crate) async fn note_on_some(
    session: &Session,
    mut namespaces: impl Iterator<Item = &NamespaceFact>,
    commands: &str,
) -> Option<String> {
    let is_labelled = |it: &&NamespaceFact| is_labelled(|key| it.labels.get(key));
    let first = namespaces.find(is_labelled)?;
    let settings = published::settings_beside_accurate(session).await?;
    let mut labelled = std::iter::once(first).chain(namespaces.filter(is_labelled));
    labelled.any(|it| settings.is_managed(&it.name)).then(|| {
        format!(
            "some of these namespaces are in a hierarchy of Accurate, which is not shown here: see {commands}"
        )
    })
}

/// Whether the namespace with these labels is in a hierarchy of Accurate, if Accurate's API is enabled: excluded ones are in none.
pub(crate) async fn is_in<'a>(
    session: &Session,
    namespace: &str,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    is_labelled(label)
        && published::settings_beside_accurate(session).await.is_some_and(|it| it.is_managed(namespace))
}

/// Whether labels say so.
pub(crate) fn is_labelled<'a>(label: impl Fn(&str) -> Option<&'a str>) -> bool {
    [PARENT, TEMPLATE, TYPE].iter().any(|key| label(key).is_some_and(|it| !it.is_empty()))
}

/// The `SubNamespaces` of the cluster, or of a namespace.
async fn list(session: &Session, within: Option<&str>) -> Result<Vec<(Name, SubNamespaceFact)>, Problem> {
    let all = session.list(&api(session, within), &ListParams::default()).await?;
    Ok(all.into_iter().map(ingest::accurate::sub_namespace).collect())
}

/// A `SubNamespace`, if the user may read it.
pub(crate) async fn get(session: &Session, namespace: &str, name: &str) -> Option<(Name, SubNamespaceFact)> {
    let found = session.call(api(session, Some(namespace)).get_opt(name)).await;
    found.ok().flatten().map(ingest::accurate::sub_namespace)
}

fn api(session: &Session, within: Option<&str>) -> Api<DynamicObject> {
    let (client, resource) = (session.client.clone(), SubNamespace::api_resource());
    match within {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

fn unlisted(problem: &Problem) -> Failure {
    let failure = Failure::because("SubNamespaces cannot be listed", problem);
    if problem.is_not_installed() {
        return failure.with_hint(format!("The cluster does not serve accurate.cybozu.com/v2. {ENABLE}"));
    }
    failure
}

/// An empty forest with these settings, in which Accurate's API is enabled.
pub(crate) async fn forest(session: &Session, shared: &SharedSettings) -> Result<Forest, Failure> {
    let invalid = |why| Failure::new(format!("Error: the settings of hns are invalid: {why}"));
    let settings = shared.within(session.installation().await).map_err(invalid)?;
    let rules = shared.accurate.rules().map_err(invalid)?;
    Ok(Forest::unconfigured(Arc::new(settings)).with_accurate(Arc::new(rules)))
}

/// Reads them in an installation with these settings, in which Accurate's API is enabled.
pub(crate) async fn read(session: &Session, shared: &SharedSettings) -> Result<AccurateTrees, Failure> {
    let forest = forest(session, shared).await?;
    let structure = structure::lists(session).await?.map_err(|unlisted| {
        Failure::new(format!("Error: you may not list {unlisted} in the whole cluster")).with_hint(
            "Only who may list them sees the whole of a tree: an administrator of the cluster can.",
        )
    })?;
    let forms = list(session, None).await.map_err(|problem| unlisted(&problem))?;
    let mut forest = structure.put_into(forest);
    forest.apply(AccurateFact::SubNamespaces(forms.clone()));
    let namespaces = structure.namespaces.into_values().collect();
    Ok(AccurateTrees { namespaces, forms, forest })
}
