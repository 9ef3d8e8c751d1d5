//! The flags that say how the hierarchy is to be, by HNC's names where HNC has them. Decides nothing.

use clap::Args;
use forest::{Identity, Settings};
use regex::Regex;

use super::values;

/// How the hierarchy is to be. Both binaries must be given the same.
#[derive(Clone, Debug, Args)]
pub struct HierarchyArgs {
    /// Label key of namespaces that the hierarchy manages, as a regular expression that the whole key must match; may be
    /// given several times
    #[arg(long = "managed-namespace-label", value_name = "PATTERN", value_parser = values::managed_key)]
    managed_labels: Vec<Regex>,

    /// Annotation key of namespaces that the hierarchy manages, likewise
    #[arg(long = "managed-namespace-annotation", value_name = "PATTERN", value_parser = values::managed_key)]
    managed_annotations: Vec<Regex>,

    /// Refuse a `HierarchyConfiguration` that would override a managed value asked for by a descendant, instead of only
    /// reporting it there
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "false", default_missing_value = "true", value_parser = values::boolean)]
    refuse_label_conflicts: bool,

    /// User or group that may keep the place of namespaces with annotation `hnc.x-k8s.io/managed-by` VALUE; may be given
    /// several times
    #[arg(long = "external-manager", value_name = "VALUE=USER_OR_GROUP", value_parser = values::external_manager)]
    external_managers: Vec<(String, String)>,

    /// User or group that may bring back exported namespaces, anchors, hierarchies and copies as they were; may be given
    /// several times
    #[arg(long = "restore-identity", value_name = "USER_OR_GROUP", value_parser = values::identity)]
    restore_identities: Vec<String>,

    /// Write the annotation `hnc.x-k8s.io/ancestry`, the names of all ancestors joined by dots, on every managed namespace
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "false", default_missing_value = "true", value_parser = values::boolean)]
    ancestry_annotation: bool,

    /// Bind the creator of a subnamespace to a `ClusterRole` in it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "false", default_missing_value = "true", value_parser = values::boolean)]
    initial_admin: bool,

    /// The `ClusterRole` of `--initial-admin`
    #[arg(long, value_name = "NAME", default_value = "admin", value_parser = values::object_name)]
    initial_admin_cluster_role: String,
}

impl HierarchyArgs {
    /// The settings with these flags added.
    ///
    /// # Errors
    /// Never for flags that were parsed: each pattern was tried then.
    pub(crate) fn add_to(&self, settings: Settings) -> anyhow::Result<Settings> {
        let patterns = |of: &[Regex]| of.iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>();
        let mut settings =
            settings.managing(&patterns(&self.managed_labels), &patterns(&self.managed_annotations))?;
        settings.refuse_label_conflicts = self.refuse_label_conflicts;
        settings.ancestry_annotation = self.ancestry_annotation;
        settings.initial_admin = self.initial_admin.then(|| self.initial_admin_cluster_role.as_str().into());
        settings.restore_identities = self.restore_identities.iter().cloned().map(Identity).collect();
        let managers = self.external_managers.iter().cloned();
        settings.external_managers = managers.map(|(value, identity)| (value, Identity(identity))).collect();
        Ok(settings)
    }

    /// The named managers of external namespaces: value and user or group.
    pub fn external_managers(&self) -> &[(String, String)] {
        &self.external_managers
    }

    /// The identities that may restore.
    pub fn restore_identities(&self) -> &[String] {
        &self.restore_identities
    }
}
