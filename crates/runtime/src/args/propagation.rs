//! The flags that say what is propagated of objects, by HNC's names where HNC has them. Decides nothing.

use clap::Args;
use forest::{OnConflict, Patterns, Settings};

use super::values;

/// What is propagated of objects. Both binaries must be given the same.
#[derive(Clone, Debug, Args)]
pub struct PropagationArgs {
    /// Objects with this label, key and value, are not propagated; may be given several times
    #[arg(long = "nopropagation-label", value_name = "KEY=VALUE", value_parser = values::label)]
    nopropagation_labels: Vec<(String, String)>,

    /// Label key that copies do not take over from their source; `*` stands for any characters; may be given several times
    #[arg(long = "unpropagated-label", value_name = "PATTERN", value_parser = values::glob)]
    unpropagated_labels: Vec<String>,

    /// Annotation key that copies do not take over from their source, likewise
    #[arg(long = "unpropagated-annotation", value_name = "PATTERN", value_parser = values::glob)]
    unpropagated_annotations: Vec<String>,

    /// Let copies take over the labels and annotations by which deployment tools (Argo CD, Flux, kapp, Helm, kubectl apply)
    /// find what is theirs
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set,
          default_value = "false", default_missing_value = "true", value_parser = values::boolean)]
    propagate_tracking_metadata: bool,

    /// What becomes of a Role or `RoleBinding` in a namespace below that is not a copy, where one of the same name is
    /// propagated, unless the `HNCConfiguration` says it by `onConflict`: `Keep`, `Report` or `Overwrite`, as there
    #[arg(long, value_name = "WHAT", default_value = "Keep", value_parser = values::on_conflict)]
    rbac_on_conflict: OnConflict,
}

impl PropagationArgs {
    /// The settings with these flags added.
    ///
    /// # Errors
    /// Never for flags that were parsed: each pattern was tried then.
    pub(crate) fn add_to(&self, mut settings: Settings) -> anyhow::Result<Settings> {
        settings.nopropagation_labels.clone_from(&self.nopropagation_labels);
        settings.unpropagated_labels = Patterns::new(&self.unpropagated_labels)?;
        settings.unpropagated_annotations = Patterns::new(&self.unpropagated_annotations)?;
        settings.propagate_tracking_metadata = self.propagate_tracking_metadata;
        settings.rbac_on_conflict = self.rbac_on_conflict;
        Ok(settings)
    }
}
