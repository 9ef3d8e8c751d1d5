//! The flags of `hns-controller`.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::{ArgAction, Parser};
use forest::Identity;
use hns_api::names;
use hns_cluster::settings::InForce;
use hns_runtime::args::{CommonArgs, IssuerArgs, LeaderElectionArgs, ProgramArgs, SharedArgs, port};
use k8s_openapi::ByteString;

use crate::registrations::{RegistrationSettings, followed};

/// Maintains tree labels, status and copies by the hierarchy
#[derive(Debug, Clone, Parser)]
#[command(name = "hns-controller", version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag, and any of them goes with any other")]
pub struct Args {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The flags of the leader election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    /// The flags of the certificate that the controller issues.
    #[command(flatten)]
    pub issuer: IssuerArgs,
    /// Flags for keys of the settings document.
    #[command(flatten)]
    pub shared: SharedArgs,

    /// Create the webhook configurations and admission policies, and keep them as the settings require; with `false` they stay as
    /// they are, for example to change them by hand. Certificates of --enable-internal-cert-management are written in any case
    #[arg(long, action = ArgAction::Set, default_value = "true")]
    pub manage_registrations: bool,

    /// Create validating admission policies, by which the API server itself refuses requests that can be judged without the
    /// hierarchy; with `false` they are deleted, and the webhook judges most of these requests. Nothing judges the size of objects, changes of
    /// derived `ResourceQuotas`, `ResourceQuotas` that keep copies out, new objects that are marked as deleted, and the removal of
    /// finalizers of anchors that are being deleted then
    #[arg(long, action = ArgAction::Set, default_value = "true")]
    pub admission_policies: bool,

    /// Port of the Service of the webhook, at which the API server calls it
    #[arg(long, value_name = "PORT", default_value_t = names::WEBHOOK_SERVICE_PORT, value_parser = port)]
    pub webhook_service_port: u16,

    /// Certificates (PEM, in base64) that the API server verifies the webhook's certificate with: `caBundle` in the webhook
    /// configurations. Without it, and without --enable-internal-cert-management, that field stays as it is
    #[arg(long, value_name = "BASE64", value_parser = bundle)]
    pub webhook_ca_bundle: Option<Arc<[u8]>>,

    /// Annotation of the webhook configurations, as `key=value`; may be given several times. Some programs put the certificate into
    /// configurations with an annotation, for example `cert-manager.io/inject-ca-from=NAMESPACE/CERTIFICATE`
    #[arg(long = "webhook-annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    pub webhook_annotations: Vec<(String, String)>,

    /// Leave the label `GroupKind` of the metrics `hnc_reconcilers_object_*` empty and count all kinds together
    #[arg(long, action = ArgAction::Set, default_value = "true")]
    pub suppress_object_tags: bool,

    /// Remove the finalizers from all anchors, `HierarchyConfigurations` and, while Accurate's API is enabled, `SubNamespaces`, and exit: for an
    /// uninstallation. Does nothing while the Deployment of the controller exists
    #[arg(long)]
    pub release_finalizers: bool,
}

impl ProgramArgs for Args {
    fn check(&self) -> anyhow::Result<()> {
        self.election.timing()?;
        self.issuer.check()?;
        let internal = self.common.certificates.enable_internal_cert_management;
        anyhow::ensure!(
            !internal || self.webhook_ca_bundle.is_none(),
            "--webhook-ca-bundle is for certificates that the controller does not issue; remove it, or \
             --enable-internal-cert-management"
        );
        Ok(())
    }
}

impl Args {
    /// The settings of registrations and policies.
    pub fn registrations(&self, in_force: &InForce) -> RegistrationSettings {
        let (shared, settings) = (&in_force.shared, (*in_force.rules).clone());
        let own = std::iter::once(&self.common.namespace);
        let excluded: BTreeSet<&String> = shared.excluded_namespaces.iter().chain(own).collect();
        let [managed_labels, managed_annotations] = settings.managed_patterns().map(<[String]>::to_vec);
        let managers = settings.external_managers.into_iter();
        RegistrationSettings {
            namespace: self.common.namespace.clone(),
            service: self.issuer.webhook_service_name.clone(),
            service_port: self.webhook_service_port,
            annotations: self.webhook_annotations.clone(),
            excluded: excluded.into_iter().cloned().collect(),
            included_pattern: format!("^(?:{})$", shared.included_namespace_regex),
            managed_labels,
            managed_annotations,
            restore_identities: settings.restore_identities.into_iter().map(|Identity(name)| name).collect(),
            external_managers: managers.map(|(value, Identity(name))| (value, name)).collect(),
            nopropagation_labels: settings.nopropagation_labels,
            propagate_tracking_metadata: settings.propagate_tracking_metadata,
            initial_admin: settings.initial_admin.is_some(),
            quotas: shared.hierarchical_quotas.enabled.then_some(shared.hierarchical_quotas.failure_policy),
            accurate: in_force.accurate.is_some(),
            followed: in_force.accurate.as_deref().map(followed).unwrap_or_default(),
            policies: self.admission_policies,
            ..RegistrationSettings::default()
        }
    }
}

fn bundle(value: &str) -> Result<Arc<[u8]>, String> {
    let decoded = serde_json::from_value::<ByteString>(value.into());
    let ByteString(text) = decoded.map_err(|_| "expected base64".to_owned())?;
    let certificates = pem::parse_many(&text).map_err(|error| format!("expected PEM: {error}"))?;
    if !certificates.iter().any(|it| it.tag() == "CERTIFICATE") {
        return Err("expected at least one certificate".to_owned());
    }
    Ok(text.into())
}

fn annotation(value: &str) -> Result<(String, String), String> {
    let (key, value) = value.split_once('=').ok_or("expected key=value")?;
    Ok((key.to_owned(), value.to_owned()))
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
