//! Writes derived quotas, and the status of hierarchical quotas.

use forest::hnc::quota::ledger::Ledger;
use forest::hnc::quota::{QuotaCondition, QuotaStatus, Resources};
use forest::{Fact, Name, Version, hnc, keys};
use hns_api::{HierarchicalResourceQuota, annotations, labels, names};
use hns_cluster::api::Api;
use hns_cluster::api_object::StructureObject;
use hns_cluster::handle::ForestHandle;
use hns_cluster::ingest;
use hns_cluster::stored::Store;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch};
use kube::core::{ApiResource, DynamicObject, Status};
use kube::{Client, CustomResourceExt};
use serde_json::{Map, Value, json};

use super::outcome::{Outcome, WriteResult, is_not_found};
use super::{delete_params, despite_changes, patch_params, post_params, precondition};

/// Writes the quotas of one namespace.
pub(super) struct QuotaWriter<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a Name,
}

/// What a derived quota should be.
pub(super) struct DerivedQuota<'a> {
    pub(super) hard: &'a Resources,
    /// The names of limits to remove.
    pub(super) dropped: &'a [Box<str>],
    pub(super) sources: &'a str,
    pub(super) limits: &'a str,
}

impl QuotaWriter<'_> {
    /// Creates the derived quota, or changes it from this version. A limit that the API server refuses keeps out no other: quotas of all
    /// levels are in one object, and users further down must not keep out limits from further up.
    pub(super) async fn write_derived(
        &self,
        version: Option<&Version>,
        quota: &DerivedQuota<'_>,
    ) -> WriteResult {
        match self.send_derived(version, quota, quota.hard).await {
            Err(kube::Error::Api(status)) => match accepted(quota.hard, &status) {
                Some(hard) => {
                    let rest = self.send_derived(version, quota, &hard).await;
                    WriteResult::refused_in_part(status, rest.map(derived_fact))
                }
                None => kube::Error::Api(status).into(),
            },
            written => written.map(derived_fact).into(),
        }
    }

    async fn send_derived(
        &self,
        version: Option<&Version>,
        quota: &DerivedQuota<'_>,
        hard: &Resources,
    ) -> kube::Result<DynamicObject> {
        let mut hard = amounts_json(hard);
        let mut metadata = version.map_or_else(|| json!({}), precondition);
        metadata["labels"] = json!({ labels::HRQ: labels::TRUE });
        metadata["annotations"] = json!({
            keys::NONE: labels::TRUE,
            annotations::HRQ_SOURCES: quota.sources,
            annotations::HRQ_LIMITS: quota.limits,
        });
        if version.is_some() {
            // The garbage collector must not delete one that another program has created.
            metadata["ownerReferences"] = Value::Null;
            hard.extend(quota.dropped.iter().map(|name| (name.to_string(), Value::Null)));
            let patch = Patch::Merge(json!({ "metadata": metadata, "spec": { "hard": hard } }));
            return self.derived().patch(keys::DERIVED_QUOTA, &patch_params(), &patch).await;
        }
        metadata["name"] = json!(keys::DERIVED_QUOTA);
        metadata["namespace"] = json!(&**self.namespace);
        let object = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": { "hard": hard } });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        self.derived().create(&post_params(false), &object).await
    }

    pub(super) async fn delete_derived(&self, version: &Version) -> WriteResult {
        let gone = || Fact::Hnc(hnc::Fact::DerivedQuotaGone(self.namespace.clone(), version.uid.clone(), 0));
        match self.derived().delete(keys::DERIVED_QUOTA, &delete_params(version)).await {
            Ok(deleted) => Ok(deleted.left().map_or_else(gone, derived_fact)),
            Err(kube::Error::Api(status)) if is_not_found(&status, keys::DERIVED_QUOTA) => Ok(gone()),
            Err(error) => Err(error),
        }
        .into()
    }

    pub(super) async fn free_derived(&self, version: &Version) -> WriteResult {
        let mut metadata = precondition(version);
        metadata["finalizers"] = Value::Null;
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.derived().patch(keys::DERIVED_QUOTA, &patch_params(), &patch).await {
            // The watch shows that it is gone.
            Err(kube::Error::Api(status)) if is_not_found(&status, keys::DERIVED_QUOTA) => {
                WriteResult::done([])
            }
            freed => freed.map(derived_fact).into(),
        }
    }

    /// Writes the status. Before it says that the limits are enforced, the ledger must allow that.
    pub(super) async fn write_status(
        &self,
        (ledger, forest): (&Store, &ForestHandle),
        (name, version): (&str, &Version),
        (status, dropped): (&QuotaStatus, &[Box<str>]),
    ) -> WriteResult {
        if status.conditions.iter().any(is_new_promise)
            && let Err(outcome) = self.promise((ledger, forest), name).await
        {
            return outcome.into();
        }
        let resource = HierarchicalResourceQuota::api_resource();
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), self.namespace, &resource);
        let mut patch = json!({ "metadata": precondition(version), "status": status_json(status, dropped) });
        let send = |patch| {
            let api = &api;
            async move { api.patch(name, &patch_params(), &Patch::Merge(patch)).await }
        };
        let written = if status.says_enforced() {
            send(patch).await
        } else {
            // Users may write the status, too. A correction of what they write must not wait for them.
            despite_changes(&mut patch, send).await
        };
        match written {
            Ok(patched) => {
                let (namespace, quota) = ingest::quotas::quota(patched);
                WriteResult::done([Fact::Hnc(hnc::Fact::Quota(namespace, quota))])
            }
            Err(error) => error.into(),
        }
    }

    /// Notes in the ledger that the limits of a quota are enforced from now on ([`Ledger::enforce`]).
    async fn promise(&self, (store, forest): (&Store, &ForestHandle), name: &str) -> Result<(), Outcome> {
        if !self.is_asked_about_usage().await? {
            let why = "the limits are not enforced yet: the webhook for usage is not registered";
            return Err(Outcome::Transient(why.to_owned(), None));
        }
        loop {
            let stored = store.read::<Ledger>().await?;
            let mut ledger = stored.content.clone();
            let prepared = forest.read(|forest| {
                let limits = forest.limits_of_quota(self.namespace, name);
                limits.map_or(Ok(()), |limits| ledger.enforce(forest, &limits))
            });
            if let Err(pending) = prepared {
                return Err(Outcome::Transient(format!("the limits are not enforced yet: {pending}"), None));
            }
            if ledger == stored.content || store.replace(&stored, &ledger).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Whether the API server is configured to ask the webhook about usage. When quotas are enabled, it is not at first.
    /// The controller may list and watch its registrations, by name, but not get them.
    async fn is_asked_about_usage(&self) -> kube::Result<bool> {
        let named = format!("metadata.name={}", names::VALIDATING_WEBHOOK_CONFIGURATION);
        let all = Api::<ValidatingWebhookConfiguration>::all(self.client.clone());
        let found = all.list(&ListParams::default().fields(&named)).await?;
        let mut entries = found.items.into_iter().flat_map(|it| it.webhooks.unwrap_or_default());
        Ok(entries.any(|entry| entry.name == names::webhooks::RESOURCE_QUOTAS_STATUS))
    }

    fn derived(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<ResourceQuota>(&());
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }
}

/// Whether the limits were not enforced before.
fn is_new_promise(condition: &QuotaCondition) -> bool {
    *condition.type_ == *hnc::quota::ENFORCED && condition.holds && condition.since.is_none()
}

fn derived_fact(object: DynamicObject) -> Fact {
    let DynamicObject { metadata, data, .. } = object;
    let (namespace, quota) = ingest::quotas::derived_quota(StructureObject { metadata, data });
    Fact::Hnc(hnc::Fact::DerivedQuotaWritten(namespace, quota))
}

/// The limits that the response does not refuse, if it refuses some of several.
fn accepted(hard: &Resources, refusal: &Status) -> Option<Resources> {
    let causes = refusal.details.as_ref().map_or_else(Default::default, |details| &details.causes[..]);
    let is_refused = |name: &str| causes.iter().any(|cause| cause.field == format!("spec.hard[{name}]"));
    let mut accepted = hard.clone();
    accepted.retain(|name, _| !is_refused(name));
    (!accepted.is_empty() && accepted.len() < hard.len()).then_some(accepted)
}

fn amounts_json(amounts: &Resources) -> Map<String, Value> {
    amounts.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string()))).collect()
}

/// A merge patch must name what it removes.
fn status_json(status: &QuotaStatus, dropped: &[Box<str>]) -> Value {
    let amounts = |amounts: &Resources| {
        let mut json = amounts_json(amounts);
        json.extend(dropped.iter().map(|name| (name.to_string(), Value::Null)));
        json
    };
    let now = Timestamp::now();
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|it| {
            json!({
                "type": it.type_,
                "status": if it.holds { "True" } else { "False" },
                "reason": it.reason,
                "message": it.message,
                "lastTransitionTime": it.since.as_deref().map_or_else(|| format!("{now:.0}"), str::to_owned),
            })
        })
        .collect();
    json!({
        "hard": amounts(&status.hard),
        "used": amounts(&status.used),
        "requestsSummary": status.requests_summary,
        "limitsSummary": status.limits_summary,
        "conditions": conditions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_refused_keeps_out_no_other() {
        let hard = |names: &[&str]| -> Resources {
            names.iter().map(|name| ((*name).into(), "1".parse().unwrap())).collect()
        };
        let refusal = |fields: &[&str]| -> Status {
            let causes: Vec<Value> = fields.iter().map(|field| json!({ "field": field })).collect();
            serde_json::from_value(json!({ "code": 422, "details": { "causes": causes } })).unwrap()
        };
        let all = hard(&["count/a.b", "pods", "secrets"]);
        for (fields, wanted) in [
            (&["spec.hard[pods]"][..], Some(hard(&["count/a.b", "secrets"]))),
            (&["spec.hard[pods]", "spec.hard[count/a.b]"], Some(hard(&["secrets"]))),
            (&["spec.hard[pods]", "spec.hard[secrets]", "spec.hard[count/a.b]"], None),
            (&["spec.hard[others]", "metadata.name"], None),
            (&[], None),
        ] {
            assert_eq!(accepted(&all, &refusal(fields)), wanted, "{fields:?}");
        }
    }
}
