//! Reads Accurate's hierarchy into a forest, with the same conversion to facts as the controller.

use std::sync::Arc;

use forest::accurate::{Fact as AccurateFact, SubNamespaceFact};
use forest::{Forest, Name, NamespaceFact};
use hns_api::accurate::SubNamespace;
use hns_cluster::api::Api;
use hns_cluster::ingest;
use hns_cluster::settings::SharedSettings;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, ListParams};

use crate::Failure;
use crate::session::Session;
use crate::structure::{self, Extent};

/// All namespaces and `SubNamespaces` of the cluster.
pub(crate) struct AccurateTrees {
    pub(crate) namespaces: Vec<NamespaceFact>,
    /// Each with its namespace.
    pub(crate) forms: Vec<(Name, SubNamespaceFact)>,
    /// Both, with HNC's hierarchy.
    pub(crate) forest: Forest,
}

/// Reads them in an installation with these settings, in which Accurate's API is enabled.
pub(crate) async fn read(session: &Session, shared: &SharedSettings) -> Result<AccurateTrees, Failure> {
    let invalid = |why| Failure::new(format!("Error: the settings of hns are invalid: {why}"));
    let settings = shared.within(session.installation().await).map_err(invalid)?;
    let rules = shared.accurate.rules().map_err(invalid)?;
    let structure = structure::read(session, Extent::Below(&[])).await?;
    if !structure.is_whole {
        return Err(Failure::new("you may not list namespaces and hierarchyconfigurations"));
    }
    let api = Api::<DynamicObject>::all_with(session.client.clone(), &SubNamespace::api_resource());
    let forms = session.list(&api, &ListParams::default()).await;
    let forms = forms.map_err(|problem| Failure::because("SubNamespaces cannot be listed", &problem))?;
    let forest = Forest::unconfigured(Arc::new(settings)).with_accurate(Arc::new(rules));
    let mut forest = structure.put_into(forest);
    let forms: Vec<_> = forms.into_iter().map(ingest::accurate::sub_namespace).collect();
    forest.apply(AccurateFact::SubNamespaces(forms.clone()));
    let namespaces = structure.namespaces.into_values().collect();
    Ok(AccurateTrees { namespaces, forms, forest })
}
