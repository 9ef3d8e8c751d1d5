//! Which limits a core `ResourceQuota` accepts: names of resources, and quantities for them.

use crate::core::quantity::Quantity;
use crate::hnc::rules::managed_keys::qualified_name_fault;

/// The resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The other resources whose names have no prefix.
const MEASURED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Objects that the controller writes into this namespace: restrictions and the rights of those who are responsible for it, copied from
/// above, and the object that shows the conditions. A limit on their number would keep them out.
pub const COPIED: [&str; 7] = [
    "count/hierarchyconfigurations.hnc.x-k8s.io",
    "count/limitranges",
    "count/networkpolicies.networking.k8s.io",
    "count/resourcequotas",
    "count/rolebindings.rbac.authorization.k8s.io",
    "count/roles.rbac.authorization.k8s.io",
    "resourcequotas",
];

/// The API server compares thousandths in 64 bits, so it refuses some larger numbers as no integers.
const MOST_COUNTED: Quantity = Quantity::whole(i64::MAX / 1000);

const HUGE_PAGES: [&str; 2] = ["hugepages-", "requests.hugepages-"];

const KEPT_OUT: &str = "cannot be limited: the limit would keep out what the controller writes";

/// Whether the resource `full`, such as `roles.rbac.authorization.k8s.io`, has this name, with or without its group.
fn is_called(full: &str, name: &str) -> bool {
    full == name || full.split('.').next() == Some(name)
}

/// What is wrong with the name of a resource, as a clause; `None` if the API server accepts it.
pub fn name_fault(name: &str) -> Option<&'static str> {
    if let Some(fault) = qualified_name_fault(name) {
        return Some(fault);
    }
    let is_known = COUNTED.contains(&name)
        || MEASURED.contains(&name)
        || HUGE_PAGES.iter().any(|prefix| name.starts_with(prefix))
        || name.contains('/');
    let is_copied = |it: &&str| it.strip_prefix("count/").is_some_and(|it| is_called(it, name));
    if !is_known && COPIED.iter().any(is_copied) {
        return Some(KEPT_OUT);
    }
    if !is_known {
        return Some(
            "is no resource that a quota can limit; for objects of other kinds use count/RESOURCE.GROUP",
        );
    }
    COPIED.contains(&name).then_some(KEPT_OUT)
}

/// What is wrong with the limit of a resource with an accepted name, as a clause; `None` if the API server accepts it.
pub fn limit_fault(name: &str, limit: Quantity) -> Option<&'static str> {
    if limit.is_negative() {
        return Some("must be greater than or equal to 0");
    }
    if !is_counted(name) {
        return None;
    }
    if !limit.is_whole() {
        return Some("must be an integer");
    }
    (limit > MOST_COUNTED).then_some("must be at most 9223372036854775")
}

/// Why nothing counts an accepted resource, as a clause that names the right one; `None` if it may be counted.
///
/// Kubernetes counts extended resources such as `example.com/gpu` as `requests.example.com/gpu` only. `count/`, and the names of
/// storage and device classes (`….k8s.io/`), are counted otherwise.
pub fn never_counted(name: &str) -> Option<String> {
    let is_extended = is_extended(name) && !name.starts_with("count/") && !name.contains("k8s.io/");
    is_extended.then(|| format!("an extended resource is counted as requests.{name} only"))
}

/// Whether it is counted in whole numbers: objects, and extended resources such as `example.com/gpu`.
fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_resource_is_counted_by_its_requests_only() {
        let hint = never_counted("nvidia.com/gpu");
        assert_eq!(hint.as_deref(), Some("an extended resource is counted as requests.nvidia.com/gpu only"));
        for name in [
            "requests.nvidia.com/gpu",
            "count/foos.bar.com",
            "cpu",
            "gold.storageclass.storage.k8s.io/requests.storage",
        ] {
            assert_eq!(never_counted(name), None, "{name}");
        }
    }

    #[test]
    fn a_copied_kind_is_refused_by_any_name() {
        for name in [
            "roles",
            "rolebindings.rbac.authorization.k8s.io",
            "limitranges",
            "count/roles.rbac.authorization.k8s.io",
        ] {
            assert_eq!(name_fault(name), Some(KEPT_OUT), "{name}");
        }
        assert!(name_fault("deployments").unwrap().contains("count/RESOURCE.GROUP"));
    }

    #[test]
    fn limits_are_those_of_a_core_quota_that_keep_no_copy_out() {
        for (name, limit, is_right) in [
            ("pods", "5", true),
            ("pods", "0", true),
            ("pods", "5.5", false),
            ("pods", "-1", false),
            ("pods", "9223372036854775", true),
            ("pods", "9223372036854776", false),
            ("example.com/gpu", "7Ei", false),
            ("requests.example.com/gpu", "7Ei", true),
            ("memory", "7Ei", true),
            ("cpu", "1.5", true),
            ("requests.cpu", "500m", true),
            ("limits.memory", "1Gi", true),
            ("hugepages-2Mi", "4Mi", true),
            ("requests.hugepages-2Mi", "4Mi", true),
            ("requests.nvidia.com/gpu", "4", true),
            ("count/deployments.apps", "4", true),
            ("count/deployments.apps", "4.5", false),
            ("gold.storageclass.storage.k8s.io/requests.storage", "10Gi", true),
            ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "10", true),
            ("services.nodeports", "1", true),
            ("podz", "1", false),
            ("", "1", false),
            ("a/b/c", "1", false),
            ("resourcequotas", "0", false),
            ("count/networkpolicies.networking.k8s.io", "0", false),
            ("Pods!", "1", false),
        ] {
            let fault = name_fault(name).or_else(|| limit_fault(name, limit.parse().unwrap()));
            assert_eq!(fault.is_none(), is_right, "{name}: {limit}: {fault:?}");
        }
    }
}
