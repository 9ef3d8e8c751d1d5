//! The flags for keys of the settings document, with HNC's names where HNC has them. Only `hns-controller` uses them, and they
//! override the document.

use clap::Args;

use super::values;
use hns_cluster::settings::{FailurePolicy, SharedSettings};

/// Flags for keys of the settings document.
#[derive(Clone, Debug, Default, Args)]
pub struct SharedArgs {
    /// Namespace that never takes part in a hierarchy, beside those of the settings document; may be given several times
    #[arg(long = "excluded-namespace", value_name = "NAMESPACE", value_parser = values::namespace)]
    excluded_namespaces: Vec<String>,

    /// Regular expression that the whole name of a namespace must match to take part in a hierarchy
    #[arg(long, value_name = "PATTERN", value_parser = checked(values::anchored_regex))]
    included_namespace_regex: Option<String>,

    /// Label key of namespaces that the hierarchy manages, as a regular expression that the whole key must match, beside those
    /// of the settings document; may be given several times
    #[arg(long = "managed-namespace-label", value_name = "PATTERN", value_parser = checked(values::managed_key))]
    managed_labels: Vec<String>,

    /// Annotation key of namespaces that the hierarchy manages, likewise
    #[arg(long = "managed-namespace-annotation", value_name = "PATTERN", value_parser = checked(values::managed_key))]
    managed_annotations: Vec<String>,

    /// Refuse a `HierarchyConfiguration` that would override a managed value asked for by a descendant, instead of only
    /// reporting it there
    #[arg(long)]
    refuse_label_conflicts: Option<bool>,

    /// User or group that may keep the place of namespaces with annotation `hnc.x-k8s.io/managed-by` VALUE, beside those of the
    /// settings document; may be given several times
    #[arg(long = "external-manager", value_name = "VALUE=USER_OR_GROUP", value_parser = values::external_manager)]
    external_managers: Vec<(String, String)>,

    /// User or group that may bring back exported namespaces, anchors, hierarchies and copies as they were, beside those of the
    /// settings document; may be given several times
    #[arg(long = "restore-identity", value_name = "USER_OR_GROUP", value_parser = values::identity)]
    restore_identities: Vec<String>,

    /// Write the annotation `hnc.x-k8s.io/ancestry`, the names of all ancestors joined by dots, on every managed namespace
    #[arg(long)]
    ancestry_annotation: Option<bool>,

    /// Bind the creator of a subnamespace to a `ClusterRole` in it
    #[arg(long)]
    initial_admin: Option<bool>,

    /// The `ClusterRole` of `--initial-admin`
    #[arg(long, value_name = "NAME", value_parser = values::cluster_role)]
    initial_admin_cluster_role: Option<String>,

    /// Objects with this label, key and value, are not propagated, beside those of the settings document; may be given several
    /// times
    #[arg(long = "nopropagation-label", value_name = "KEY=VALUE", value_parser = checked(values::label))]
    nopropagation_labels: Vec<String>,

    /// Label key that copies do not take over from their source, beside those of the settings document; `*` stands for any
    /// characters; may be given several times
    #[arg(long = "unpropagated-label", value_name = "PATTERN", value_parser = values::glob)]
    unpropagated_labels: Vec<String>,

    /// Annotation key that copies do not take over from their source, likewise
    #[arg(long = "unpropagated-annotation", value_name = "PATTERN", value_parser = values::glob)]
    unpropagated_annotations: Vec<String>,

    /// Let copies take over the labels and annotations by which deployment tools (Argo CD, Flux, kapp, Helm, kubectl apply)
    /// find what is theirs
    #[arg(long)]
    propagate_tracking_metadata: Option<bool>,

    /// What happens to a Role or `RoleBinding` in a namespace below that is not a copy, where one of the same name is
    /// propagated: `Keep`, `Report` or `Overwrite`, as `onConflict` in the `HNCConfiguration`. An entry there with the mode
    /// `AllowPropagate` can say otherwise
    #[arg(long, value_name = "WHAT", value_parser = checked(values::on_conflict))]
    rbac_on_conflict: Option<String>,

    /// Enforce hierarchical quotas
    #[arg(long)]
    enable_hrq: Option<bool>,

    /// What the API server does with usage of hierarchical quotas while no webhook answers: `Ignore` allows it, `Fail` refuses it
    #[arg(long, value_name = "POLICY", value_parser = values::failure_policy)]
    hrq_failure_policy: Option<FailurePolicy>,
}

impl SharedArgs {
    /// The settings of a document with these flags: values of a flag that may be given several times are added, any other flag
    /// replaces the document's value.
    pub fn over(&self, mut settings: SharedSettings) -> SharedSettings {
        fn set<T: Clone>(to: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                to.clone_from(given);
            }
        }
        settings.excluded_namespaces.extend(self.excluded_namespaces.iter().cloned());
        set(&mut settings.included_namespace_regex, self.included_namespace_regex.as_ref());
        settings.managed_namespace_labels.extend(self.managed_labels.iter().cloned());
        settings.managed_namespace_annotations.extend(self.managed_annotations.iter().cloned());
        set(&mut settings.refuse_label_conflicts, self.refuse_label_conflicts.as_ref());
        for (value, identity) in &self.external_managers {
            settings.external_managers.entry(value.clone()).or_default().insert(identity.clone());
        }
        settings.restore_identities.extend(self.restore_identities.iter().cloned());
        set(&mut settings.ancestry_annotation, self.ancestry_annotation.as_ref());
        set(&mut settings.initial_admin.enabled, self.initial_admin.as_ref());
        set(&mut settings.initial_admin.cluster_role, self.initial_admin_cluster_role.as_ref());
        let propagation = &mut settings.propagation;
        propagation.nopropagation_labels.extend(self.nopropagation_labels.iter().cloned());
        propagation.unpropagated_labels.extend(self.unpropagated_labels.iter().cloned());
        propagation.unpropagated_annotations.extend(self.unpropagated_annotations.iter().cloned());
        set(&mut propagation.tracking_metadata, self.propagate_tracking_metadata.as_ref());
        set(&mut propagation.rbac_on_conflict, self.rbac_on_conflict.as_ref());
        set(&mut settings.hierarchical_quotas.enabled, self.enable_hrq.as_ref());
        set(&mut settings.hierarchical_quotas.failure_policy, self.hrq_failure_policy.as_ref());
        settings
    }
}

fn checked<T: 'static>(
    check: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |value| check(value).map(|_| value.to_owned())
}
