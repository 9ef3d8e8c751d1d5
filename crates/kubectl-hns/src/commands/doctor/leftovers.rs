//! Whether HNC's service account still has its rights, which docs/upgrade-from-hnc.md says to delete.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};

use super::Finding;
use crate::lines::printable;
use crate::session::Session;

/// What HNC's manifests and chart call it.
const BINDING: &str = "hnc-manager-rolebinding";

/// A note on the binding, if it exists and the user may read it.
pub(super) async fn check(session: &Session) -> Option<Finding> {
    let bindings = session.all::<ClusterRoleBinding>();
    let found = session.call(bindings.get_opt(BINDING)).await.ok()??;
    Some(finding(&found))
}

fn finding(binding: &ClusterRoleBinding) -> Finding {
    let subject = |it: &Subject| {
        let namespace = it.namespace.as_deref().map(|it| format!("{it}/")).unwrap_or_default();
        printable(&format!("{} {namespace}{}", it.kind, it.name)).into_owned()
    };
    let subjects: Vec<String> = binding.subjects.iter().flatten().map(subject).collect();
    Finding::note(
        "rights of HNC",
        format!(
            "the ClusterRoleBinding {BINDING} of HNC is left, which gives {} the ClusterRole {}; `kubectl delete clusterrolebinding \
             {BINDING}` deletes it",
            subjects.join(", "),
            printable(&binding.role_ref.name)
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_keeps_which_rights_is_said() {
        let binding = json!({
            "metadata": { "name": BINDING },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hnc-manager-role" },
            "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "hnc-system" }],
        });
        let text = finding(&serde_json::from_value(binding).unwrap()).text;
        assert!(
            text.contains("gives ServiceAccount hnc-system/default the ClusterRole hnc-manager-role; "),
            "{text}"
        );
    }
}
