//! Whether there are hierarchical quotas although these are disabled.

use hns_api::HierarchicalResourceQuota;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;

use super::{Finding, some};
use crate::session::Session;
use crate::{published, quotas};

/// A note if there are hierarchical quotas although these are disabled.
pub(super) async fn check(session: &Session) -> Option<Finding> {
    let (settings, unknown) = published::settings(session).await;
    if unknown.is_some() || settings.hierarchical_quotas {
        return None;
    }
    let all = session.all::<HierarchicalResourceQuota>();
    let found = session.list_metadata(&all, &ListParams::default()).await.ok()?;
    let named = |it: &PartialObjectMeta<HierarchicalResourceQuota>| {
        let part = |it: &Option<String>| it.clone().unwrap_or_default();
        format!("{}/{}", part(&it.metadata.namespace), part(&it.metadata.name))
    };
    without_effect(&found.iter().map(named).collect::<Vec<_>>())
}

fn without_effect(names: &[String]) -> Option<Finding> {
    let text = || format!("{} exist: {}; {}", names.len(), some(names), quotas::DISABLED);
    (!names.is_empty()).then(|| Finding::note("hierarchical quotas", text()))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn quotas_without_an_effect_are_noted() {
        assert_eq!(without_effect(&[]), None);
        let found = without_effect(&["acme/team".to_owned()]).unwrap();
        assert_eq!(found.level, Level::Note);
        assert!(found.text.starts_with("1 exist: acme/team; hierarchical quotas are disabled"), "{found:?}");
    }
}
