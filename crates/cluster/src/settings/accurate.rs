//! The section `accurate` of the shared settings, and Accurate's own configuration file, which is a part of it (section 5 of its
//! contract). Pure.
//!
//! What is checked with the cluster (that the watched kinds exist, and that there are rights for them) is a function of what the API
//! server has answered.

mod config;
mod gates;
mod watches;

use std::collections::BTreeMap;

use hns_api::accurate::names::CONFIGURATION;
use kube::core::discovery::v2::APIGroupDiscovery;
use serde::{Deserialize, Deserializer, Serialize};

use super::section::section;
use super::{Data, Invalid};

pub use self::config::{Config, NamingPolicy};
pub use self::gates::{FeatureGates, parse_flag};
pub use self::watches::{VERBS, Watch, missing_rights, self_review};

/// Whether Accurate's API is in force, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the document")]
pub struct Settings {
    /// Whether it is.
    pub enabled: bool,
    /// Whether a root or a sub-namespace with sub-namespaces may be deleted, and they with it. Accurate's flag
    /// `--webhook-allow-cascading-deletion`.
    pub allow_cascading_deletion: bool,
    /// Whether a user's own object is replaced by an object in mode `update` from above, as Accurate does. Otherwise it is kept and
    /// reported.
    pub overwrite_own_objects: bool,
    /// Whether a user who may create or change a namespace may also give it a parent or a template, as in Accurate. Otherwise the user also
    /// needs rights in both namespaces.
    pub trust_namespace_editors: bool,
    /// The feature gates that are set. Accurate's flag `--feature-gates`.
    pub feature_gates: BTreeMap<String, bool>,
    /// Accurate's configuration file.
    #[serde(deserialize_with = "section")]
    pub config: Config,
}

impl Settings {
    /// The section for an installation of Accurate: its API is enabled, with the configuration in `data`, the data of Accurate's
    /// `ConfigMap`.
    ///
    /// # Errors
    /// The configuration is missing, or the first thing that is wrong with it: the file, the key and the reason.
    pub fn of_accurate(data: &Data) -> Result<Self, String> {
        let text = data.get(CONFIGURATION).ok_or(format!("{CONFIGURATION}: the key is missing"))?;
        let config = Config::parse(text).map_err(|invalid| format!("{CONFIGURATION}: {invalid}"))?;
        Ok(Self { enabled: true, config, ..Self::default() })
    }

    /// Checks what needs no cluster, also while the API is not enabled. Keys are paths from the section.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Invalid> {
        self.rules().map(drop)
    }

    /// What rules and plans depend on. The resources of the watched kinds are not known yet.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn rules(&self) -> Result<forest::accurate::Settings, Invalid> {
        self.gates().map_err(|invalid| within("featureGates", invalid))?;
        let config = self.config.rules().map_err(|invalid| within("config", invalid))?;
        Ok(forest::accurate::Settings {
            allow_cascading_deletion: self.allow_cascading_deletion,
            overwrite_own_objects: self.overwrite_own_objects,
            trust_namespace_editors: self.trust_namespace_editors,
            ..config
        })
    }

    /// Checks the configuration with what the API server serves, while the API is enabled.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_served(&self, served: &[APIGroupDiscovery]) -> Result<(), Invalid> {
        if !self.enabled {
            return Ok(());
        }
        self.config.resolve(served).map(drop).map_err(|invalid| within("config", invalid))
    }

    /// What the feature gates decide.
    ///
    /// # Errors
    /// There is no such gate.
    pub fn gates(&self) -> Result<FeatureGates, Invalid> {
        FeatureGates::new(&self.feature_gates)
    }
}

fn within(section: &str, Invalid { key, reason }: Invalid) -> Invalid {
    Invalid::new(format!("{section}.{key}"), reason)
}

/// Reads a value that may be null, as Go does: null is the default.
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::super::SharedSettings;
    use super::*;

    fn config_map(text: &str) -> Data {
        [(CONFIGURATION.to_owned(), text.to_owned())].into()
    }

    /// What Accurate's chart makes of its values becomes our document.
    #[test]
    fn a_configuration_of_accurate_is_taken_over() {
        let text = r"
labelKeys: [team]
propagateLabelKeyExcludes:
- '*kubernetes.io/*'
watches:
- group: rbac.authorization.k8s.io
  kind: Role
  version: v1
- kind: ResourceQuota
  version: v1
";
        let accurate = Settings::of_accurate(&config_map(text)).unwrap();
        assert!(accurate.enabled && !accurate.allow_cascading_deletion);
        assert_eq!(accurate.config, Config::parse(text).unwrap());
        let document = SharedSettings { accurate, ..SharedSettings::default() };
        assert_eq!(SharedSettings::parse(&document.text()).unwrap(), document);
    }

    #[test]
    fn a_wrong_configuration_of_accurate_is_named_with_file_and_key() {
        let error = |data: &Data| Settings::of_accurate(data).unwrap_err();
        assert_eq!(error(&Data::new()), "config.yaml: the key is missing");
        assert_eq!(
            error(&config_map("labelKeys: [accurate.cybozu.com/x]")),
            "config.yaml: labelKeys[0]: \"accurate.cybozu.com/x\": keys with the prefix accurate.cybozu.com/ are reserved"
        );
    }
}
