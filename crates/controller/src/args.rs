//! The flags of `hns-controller`. Decides nothing.

use std::collections::BTreeSet;

use clap::Parser;
use clap::builder::BoolishValueParser;
use forest::Identity;
use hns_cluster::settings::InForce;
use hns_runtime::args::{CommonArgs, IssuerArgs, LeaderElectionArgs, SharedArgs};

use crate::registrations::RegistrationSettings;

/// Keeps tree labels, status and propagated copies as the hierarchy says they should be.
#[derive(Debug, Clone, Parser)]
#[command(name = "hns-controller", version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag, and any of them goes with any other")]
pub struct Args {
    /// Flags that both binaries have.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    /// Flags about certificates that are made here.
    #[command(flatten)]
    pub issuer: IssuerArgs,
    /// Flags that stand for keys of the settings document.
    #[command(flatten)]
    pub shared: SharedArgs,

    /// Keep webhook registrations and admission policies in the cluster as the flags say; with `false` they are left alone,
    /// for example to change them by hand
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "true", default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub manage_registrations: bool,

    /// Have the API server refuse by itself, through validating admission policies, what can be refused without knowing the
    /// hierarchy; with `false` the webhook is sent all of that instead
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "true", default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub admission_policies: bool,

    /// Leave the label `GroupKind` of the metrics `hnc_reconcilers_object_*` empty and count all kinds together
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "true", default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub suppress_object_tags: bool,

    /// Take the finalizers off all anchors and hierarchies, and end: for an uninstallation after which no controller would.
    /// Nothing is done while the controller's Deployment is there
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "false", default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub release_finalizers: bool,
}

impl Args {
    /// What the registrations and policies depend on, under these settings.
    pub fn registrations(&self, in_force: &InForce) -> RegistrationSettings {
        let (shared, settings) = (&in_force.shared, (*in_force.rules).clone());
        let own = std::iter::once(&self.common.namespace);
        let excluded: BTreeSet<&String> = shared.excluded_namespaces.iter().chain(own).collect();
        let managers = settings.external_managers.into_iter();
        RegistrationSettings {
            namespace: self.common.namespace.clone(),
            service: self.issuer.webhook_service_name.clone(),
            excluded: excluded.into_iter().cloned().collect(),
            included_pattern: format!("^(?:{})$", shared.included_namespace_regex),
            restore_identities: settings.restore_identities.into_iter().map(|Identity(name)| name).collect(),
            external_managers: managers.map(|(value, Identity(name))| (value, name)).collect(),
            nopropagation_labels: settings.nopropagation_labels,
            propagate_tracking_metadata: settings.propagate_tracking_metadata,
            initial_admin: settings.initial_admin.is_some(),
            policies: self.admission_policies,
            ..RegistrationSettings::default()
        }
    }
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

#[cfg(test)]
mod tests {
    use hns_runtime::args::parse_from;

    use super::*;

    #[test]
    fn object_tags_are_suppressed_as_with_hnc() {
        for (words, suppressed) in [
            (&["hns-controller"][..], true),
            (&["hns-controller", "-suppress-object-tags=false"], false),
            (&["hns-controller", "--suppress-object-tags"], true),
        ] {
            let parsed = parse_from::<Args>(words.iter().copied()).unwrap();
            assert_eq!(parsed.args.suppress_object_tags, suppressed, "{words:?}");
            assert!(parsed.ignored.meaningless.is_empty(), "{words:?}");
        }
    }
}
