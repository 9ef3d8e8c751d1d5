//! Converts hierarchical quotas and derived quotas to facts.

use forest::hnc::quota::{DerivedQuotaFact, QuotaCondition, QuotaFact, QuotaStatus, Resources};
use forest::{Name, keys, rules};
use hns_api::{annotations, labels};
use kube::core::DynamicObject;
use serde_json::Value;

use super::{name, namespace_of, version};
use crate::api_object::StructureObject;

/// The most bytes of a `HierarchicalResourceQuota`. The controller must be able to write its status, and an object has at most
/// 1.5 MiB.
const MOST_BYTES: usize = 512 * 1024;

/// The fact for a `HierarchicalResourceQuota`, with its namespace. Limits that are invalid are left out and named; all are if the
/// object is too large.
pub fn quota(object: DynamicObject) -> (Name, QuotaFact) {
    let bytes = serde_json::to_vec(&object).map_or(0, |text| text.len());
    let DynamicObject { metadata, data, .. } = object;
    let (hard, faults) = if bytes > MOST_BYTES {
        (
            Resources::new(),
            vec![format!("the object has {bytes} bytes, and at most {MOST_BYTES} are allowed").into()],
        )
    } else {
        limits(&data["spec"]["hard"])
    };
    let fact = QuotaFact {
        name: name(&metadata),
        version: version(&metadata),
        hard,
        faults,
        status: status(&data["status"]),
    };
    (namespace_of(&metadata), fact)
}

/// The valid limits, and what is wrong with the others.
fn limits(hard: &Value) -> (Resources, Vec<Box<str>>) {
    let (mut limits, mut faults) = (Resources::new(), Vec::new());
    for pair in quantities(hard) {
        match rules::quota::limits(std::slice::from_ref(&pair)) {
            Ok(limit) => limits.extend(limit),
            Err(causes) => faults.extend(causes.iter().map(|cause| cause.to_string().into())),
        }
    }
    (limits, faults)
}

/// Names with quantities as texts. A quantity may be a number.
pub fn quantities(value: &Value) -> Vec<(String, String)> {
    let pairs = value.as_object().into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

/// The quantities that can be read: those of a core quota were checked by the API server.
pub fn amounts(value: &Value) -> Resources {
    let pairs = quantities(value).into_iter();
    pairs.filter_map(|(name, text)| Some((name.into(), text.parse().ok()?))).collect()
}

fn status(status: &Value) -> QuotaStatus {
    let text = |value: &Value| value.as_str().unwrap_or_default().into();
    let condition = |it: &Value| QuotaCondition {
        type_: text(&it["type"]),
        holds: it["status"] == "True",
        reason: text(&it["reason"]),
        message: text(&it["message"]),
        since: it["lastTransitionTime"].as_str().map(Into::into),
    };
    QuotaStatus {
        hard: amounts(&status["hard"]),
        used: amounts(&status["used"]),
        requests_summary: text(&status["requestsSummary"]),
        limits_summary: text(&status["limitsSummary"]),
        conditions: status["conditions"].as_array().into_iter().flatten().map(condition).collect(),
    }
}

/// The fact for a derived quota, with its namespace.
pub fn derived_quota(object: StructureObject) -> (Name, DerivedQuotaFact) {
    let StructureObject { metadata, data } = object;
    let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let fact = DerivedQuotaFact {
        version: version(&metadata),
        hard: amounts(&data["spec"]["hard"]),
        hard_in_force: amounts(&data["status"]["hard"]),
        used: amounts(&data["status"]["used"]),
        sources: annotation(annotations::HRQ_SOURCES).unwrap_or_default().into(),
        limits: annotation(annotations::HRQ_LIMITS).unwrap_or_default().into(),
        is_marked: label(labels::HRQ) == Some(labels::TRUE) && annotation(keys::NONE) == Some(labels::TRUE),
        has_scopes: ["scopes", "scopeSelector"].iter().any(|it| !data["spec"][it].is_null()),
        terminating: metadata.deletion_timestamp.is_some(),
    };
    (namespace_of(&metadata), fact)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quota_whose_status_could_not_be_written_has_no_effect() {
        let quota = |finalizers: usize| {
            let finalizers: Vec<String> = (0..finalizers).map(|at| format!("example.com/{at:06}")).collect();
            let object = json!({
                "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota",
                "metadata": { "name": "a", "namespace": "b", "finalizers": finalizers },
                "spec": { "hard": { "pods": "1" } },
            });
            quota(serde_json::from_value(object).unwrap()).1
        };
        assert_eq!((quota(1).hard.len(), quota(1).faults.len()), (1, 0));
        let large = quota(40_000);
        assert!(large.hard.is_empty() && large.faults[0].contains("bytes"), "{:?}", large.faults);
    }
}
