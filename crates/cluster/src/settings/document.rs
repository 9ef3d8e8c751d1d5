//! The shared settings as a document: its keys, their valid values, and the conversion for rules and plans. This module does no
//! I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use forest::{Identity, Patterns};
use kube::core::discovery::v2::APIGroupDiscovery;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::section::section;
use super::{accurate, values};
use crate::error_text::not_yaml;

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// The key, as a path; empty where the text is no document at all.
    pub key: String,
    /// What is wrong there.
    pub reason: String,
}

impl Invalid {
    pub(super) fn new(key: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { key: key.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.key {
            "" => write!(f, "{}", self.reason),
            key => write!(f, "{key}: {}", self.reason),
        }
    }
}

/// The version of the document's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// The only one so far.
    #[serde(rename = "v1")]
    V1,
}

/// What all programs of an installation must agree on. A key that is absent has its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedSettings {
    /// The version of this format. Required.
    pub version: Version,
    /// Namespaces that never take part in a hierarchy, beside the installation's own.
    #[serde(default)]
    pub excluded_namespaces: BTreeSet<String>,
    /// Regular expression that the whole name of a namespace must match to take part in a hierarchy.
    #[serde(default = "any")]
    pub included_namespace_regex: String,
    /// Label keys of namespaces that the hierarchy manages, as regular expressions that must match the whole key.
    #[serde(default)]
    pub managed_namespace_labels: BTreeSet<String>,
    /// Annotation keys of namespaces that the hierarchy manages, likewise.
    #[serde(default)]
    pub managed_namespace_annotations: BTreeSet<String>,
    /// Whether a `HierarchyConfiguration` is refused that would override a managed value of a descendant.
    #[serde(default)]
    pub refuse_label_conflicts: bool,
    /// Whether a user without authority in the hierarchy is refused with 403 instead of 401, which is HNC's code.
    #[serde(default)]
    pub refuse_with403: bool,
    /// For each value of the annotation `hnc.x-k8s.io/managed-by`, the users and groups that may keep such namespaces.
    #[serde(default)]
    pub external_managers: BTreeMap<String, BTreeSet<String>>,
    /// Users and groups that may bring back exported namespaces, anchors, hierarchies and copies as they were.
    #[serde(default)]
    pub restore_identities: BTreeSet<String>,
    /// Whether the annotation `hnc.x-k8s.io/ancestry` is written on every managed namespace.
    #[serde(default)]
    pub ancestry_annotation: bool,
    /// Whether the creator of a subnamespace is bound in it.
    #[serde(default, deserialize_with = "section")]
    pub initial_admin: InitialAdmin,
    /// What is propagated of objects.
    #[serde(default, deserialize_with = "section")]
    pub propagation: Propagation,
    /// Whether hierarchical quotas are enforced.
    #[serde(default, deserialize_with = "section")]
    pub hierarchical_quotas: HierarchicalQuotas,
    /// Accurate's API.
    #[serde(default, deserialize_with = "section")]
    pub accurate: accurate::Settings,
}

/// Whether hierarchical quotas are enforced, and how strictly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HierarchicalQuotas {
    /// Whether they are.
    pub enabled: bool,
    /// What the API server does with usage that no webhook judges.
    pub failure_policy: FailurePolicy,
}

/// What the API server does with a request that no webhook answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// It allows it.
    #[default]
    Ignore,
    /// It refuses it.
    Fail,
}

/// Whether the creator of a subnamespace is bound in it, and to which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InitialAdmin {
    /// Whether it is.
    pub enabled: bool,
    /// The `ClusterRole`.
    pub cluster_role: String,
}

impl Default for InitialAdmin {
    fn default() -> Self {
        Self { enabled: false, cluster_role: "admin".to_owned() }
    }
}

/// What is propagated of objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Propagation {
    /// Objects with one of these labels, `key=value`, are not propagated.
    pub nopropagation_labels: BTreeSet<String>,
    /// Label keys that copies do not take over; `*` stands for any characters.
    pub unpropagated_labels: BTreeSet<String>,
    /// Annotation keys that copies do not take over, likewise.
    pub unpropagated_annotations: BTreeSet<String>,
    /// Whether copies take over the labels and annotations of deployment tools.
    pub tracking_metadata: bool,
    /// What happens to a Role or `RoleBinding` that is in the way of a copy: `Keep`, `Report` or `Overwrite`.
    pub rbac_on_conflict: String,
}

impl Default for Propagation {
    fn default() -> Self {
        Self {
            nopropagation_labels: BTreeSet::new(),
            unpropagated_labels: BTreeSet::new(),
            unpropagated_annotations: BTreeSet::new(),
            tracking_metadata: false,
            rbac_on_conflict: forest::OnConflict::default().to_string(),
        }
    }
}

impl Default for SharedSettings {
    fn default() -> Self {
        Self {
            version: Version::V1,
            excluded_namespaces: BTreeSet::new(),
            included_namespace_regex: any(),
            managed_namespace_labels: BTreeSet::new(),
            managed_namespace_annotations: BTreeSet::new(),
            refuse_label_conflicts: false,
            refuse_with403: false,
            external_managers: BTreeMap::new(),
            restore_identities: BTreeSet::new(),
            ancestry_annotation: false,
            initial_admin: InitialAdmin::default(),
            propagation: Propagation::default(),
            hierarchical_quotas: HierarchicalQuotas::default(),
            accurate: accurate::Settings::default(),
        }
    }
}

fn any() -> String {
    ".*".to_owned()
}

impl SharedSettings {
    /// Reads a document in YAML and checks every value.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let settings: Self = read(text)?;
        settings.within(hns_api::names::DEFAULT_NAMESPACE)?;
        Ok(settings)
    }

    /// The document, complete, in YAML.
    pub fn text(&self) -> String {
        // Maps, lists and strings can always be written.
        serde_saphyr::to_string(self).unwrap_or_default()
    }

    /// What rules and plans depend on, in an installation that lives in `namespace`.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn within(&self, namespace: &str) -> Result<forest::Settings, Invalid> {
        let excluded = &self.excluded_namespaces;
        each("excludedNamespaces", excluded, values::namespace)?;
        let pattern = &self.included_namespace_regex;
        let included = values::anchored_regex(pattern)
            .map_err(|reason| Invalid::new("includedNamespaceRegex", quoted(pattern, &reason)))?;
        let settings = forest::Settings::anchored(namespace, excluded, included);
        let labels = each("managedNamespaceLabels", &self.managed_namespace_labels, values::managed_key)?;
        let annotations =
            each("managedNamespaceAnnotations", &self.managed_namespace_annotations, values::managed_key)?;
        let texts = |of: Vec<regex::Regex>| of.iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>();
        let mut settings = settings
            .managing(&texts(labels), &texts(annotations))
            .map_err(|error| Invalid::new("managedNamespaceLabels", error))?;
        settings.refuse_label_conflicts = self.refuse_label_conflicts;
        settings.refuse_with_403 = self.refuse_with403;
        settings.external_managers = self.managers()?;
        let identities = each("restoreIdentities", &self.restore_identities, values::identity)?;
        settings.restore_identities = identities.into_iter().map(Identity).collect();
        settings.ancestry_annotation = self.ancestry_annotation;
        let InitialAdmin { enabled, cluster_role } = &self.initial_admin;
        values::cluster_role(cluster_role)
            .map_err(|reason| Invalid::new("initialAdmin.clusterRole", quoted(cluster_role, &reason)))?;
        settings.initial_admin = enabled.then(|| cluster_role.as_str().into());
        settings.hierarchical_quotas = self.hierarchical_quotas.enabled;
        self.accurate.check().map_err(in_accurate)?;
        self.propagation.add_to(settings)
    }

    /// The same for Accurate's API; `None` while it is not enabled.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn accurate_rules(&self) -> Result<Option<forest::accurate::Settings>, Invalid> {
        let rules = self.accurate.rules().map_err(in_accurate)?;
        Ok(self.accurate.enabled.then_some(rules))
    }

    /// Checks the kinds that Accurate's API watches with what the API server serves, while the API is enabled.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check_served(&self, served: &[APIGroupDiscovery]) -> Result<(), Invalid> {
        self.accurate.check_served(served).map_err(in_accurate)
    }

    fn managers(&self) -> Result<Vec<(String, Identity)>, Invalid> {
        let mut managers = Vec::new();
        for (value, identities) in &self.external_managers {
            let manager = values::manager(value)
                .map_err(|reason| Invalid::new("externalManagers", format!("{value:?}: {reason}")))?;
            let key = format!("externalManagers.{value}");
            let identities = each(&key, identities, values::identity)?;
            managers.extend(identities.into_iter().map(|it| (manager.clone(), Identity(it))));
        }
        Ok(managers)
    }
}

impl Propagation {
    fn add_to(&self, mut settings: forest::Settings) -> Result<forest::Settings, Invalid> {
        settings.nopropagation_labels =
            each("propagation.nopropagationLabels", &self.nopropagation_labels, values::label)?;
        let patterns = |key: &str, of: &BTreeSet<String>| {
            let of = each(key, of, values::glob)?;
            Patterns::new(&of).map_err(|error| Invalid::new(key, error))
        };
        settings.unpropagated_labels = patterns("propagation.unpropagatedLabels", &self.unpropagated_labels)?;
        settings.unpropagated_annotations =
            patterns("propagation.unpropagatedAnnotations", &self.unpropagated_annotations)?;
        settings.propagate_tracking_metadata = self.tracking_metadata;
        let word = &self.rbac_on_conflict;
        settings.rbac_on_conflict = values::on_conflict(word)
            .map_err(|reason| Invalid::new("propagation.rbacOnConflict", quoted(word, &reason)))?;
        Ok(settings)
    }
}

fn in_accurate(Invalid { key, reason }: Invalid) -> Invalid {
    Invalid::new(format!("accurate.{key}"), reason)
}

/// Reads a document in YAML. An empty one has no keys.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Invalid> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| Invalid::new("", not_yaml(&error)))?;
    let value = match value {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        _ => return Err(Invalid::new("", "expected keys with values")),
    };
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "" } else { &path };
        Invalid::new(path, plain(path, &error.inner().to_string()))
    })
}

/// The message of the parser in words of YAML.
fn plain(key: &str, reason: &str) -> String {
    if reason.starts_with("missing field `version`") {
        return "the key `version` is missing; the only version is v1: `version: v1`".to_owned();
    }
    let word = if key == "version" { "expected `v1`" } else { "expected a string" };
    let words = [
        ("unknown variant", "unknown value"),
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "invalid type: list"),
        ("expected string or map", word),
    ];
    words.into_iter().fold(reason.to_owned(), |text, (rust, plain)| text.replace(rust, plain))
}

fn each<T>(
    key: &str,
    of: &BTreeSet<String>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Invalid> {
    of.iter().map(|it| read(it).map_err(|reason| Invalid::new(key, quoted(it, &reason)))).collect()
}

pub(super) fn quoted(value: &str, reason: &str) -> String {
    format!("{value:?}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_has_its_default() {
        assert_eq!(SharedSettings::parse("version: v1").unwrap(), SharedSettings::default());
    }

    #[test]
    fn a_document_is_written_as_it_is_read() {
        let text = r"
version: v1
excludedNamespaces: [kube-system, 'null', '0']
includedNamespaceRegex: '(x|y|0).*'
managedNamespaceLabels: [team/.*]
externalManagers: {v: ['system:x', 'no']}
restoreIdentities: [velero]
ancestryAnnotation: true
initialAdmin: {enabled: true}
hierarchicalQuotas: {enabled: true, failurePolicy: Fail}
accurate:
  allowCascadingDeletion: true
  featureGates: {DisablePropagateGenerated: false}
  config:
    labelKeys: ['*']
    watches: [{version: v1, kind: Secret}]
    namingPolicies: [{root: ^(.*)$, match: ^$1-}]
propagation:
  nopropagationLabels: ['k=']
  unpropagatedAnnotations: ['*/z']
  rbacOnConflict: Report
";
        let settings = SharedSettings::parse(text).unwrap();
        assert_eq!(SharedSettings::parse(&settings.text()).unwrap(), settings);
        assert_eq!(settings.hierarchical_quotas.failure_policy, FailurePolicy::Fail);
        assert!(
            settings.accurate.allow_cascading_deletion
                && settings.accurate.gates().unwrap().propagate_generated
        );
        assert_eq!(settings.accurate.config.label_keys, ["*"]);
        let settings = settings.within("home").unwrap();
        for (name, managed) in
            [("home", false), ("kube-system", false), ("x1", true), ("z", false), ("0", false)]
        {
            assert_eq!(settings.is_managed(name), managed, "{name}");
        }
        assert!(settings.is_managed_label("team/a") && !settings.is_managed_label("a"));
        assert!(settings.unpropagated_annotations.matches("y/z"));
        assert_eq!(settings.nopropagation_labels, [("k".to_owned(), String::new())]);
        assert_eq!(settings.initial_admin.as_deref(), Some("admin"));
        assert!(settings.ancestry_annotation && !settings.propagate_tracking_metadata);
        assert!(settings.hierarchical_quotas);
        assert_eq!((settings.external_managers.len(), settings.restore_identities.len()), (2, 1));
        assert_eq!(settings.rbac_on_conflict, forest::OnConflict::Report);
    }

    #[test]
    fn a_mistake_is_named_with_its_key() {
        for (text, key, reason) in [
            ("{", "", "not YAML"),
            (
                "version: v1\nversion: v1",
                "",
                "not YAML: duplicate mapping key `version` is not allowed here at line 2, column 1",
            ),
            (
                "{version: v1, includedNamespaceRegex: (}",
                "includedNamespaceRegex",
                "\"(\": it is no regular expression: unclosed group",
            ),
            ("- v1", "", "expected keys with values"),
            ("{}", "", "the key `version` is missing"),
            ("version: v2", "version", "unknown value `v2`, expected `v1`"),
            ("version: 1", "version", "invalid type: integer `1`, expected `v1`"),
            ("{version: v1, accurate: []}", "accurate", "invalid type: list, expected a map"),
            ("{version: v1, accurate: {config: []}}", "accurate.config", "expected a map"),
            ("{version: v1, propagation: []}", "propagation", "expected a map"),
            ("{version: v1, initialAdmin: true}", "initialAdmin", "expected a map"),
            ("{version: v1, hierarchicalQuotas: []}", "hierarchicalQuotas", "expected a map"),
            (
                "{version: v1, hierarchicalQuotas: {failurePolicy: 1}}",
                "hierarchicalQuotas.failurePolicy",
                "expected a string",
            ),
            (
                "{version: v1, excludedNamespace: [a]}",
                "excludedNamespace",
                "unknown field `excludedNamespace`",
            ),
            ("{version: v1, propagation: {x: 1}}", "propagation.x", "unknown field `x`"),
            (
                "{version: v1, excludedNamespaces: a}",
                "excludedNamespaces",
                "invalid type: string \"a\", expected a list",
            ),
            ("{version: v1, excludedNamespaces: [a, A]}", "excludedNamespaces", "\"A\": not the name"),
            ("{version: v1, excludedNamespaces: [on]}", "excludedNamespaces[0]", "expected a string"),
            ("{version: v1, excludedNamespaces: [y]}", "excludedNamespaces[0]", "expected a string"),
            ("{version: v1, excludedNamespaces: [no]}", "excludedNamespaces[0]", "expected a string"),
            ("{version: v1, excludedNamespaces: [1]}", "excludedNamespaces[0]", "expected a string"),
            ("{version: v1, initialAdmin: {enabled: 1}}", "initialAdmin.enabled", "expected a boolean"),
            ("{version: v1, initialAdmin: {clusterRole: a/b}}", "initialAdmin.clusterRole", "\"a/b\""),
            (
                "{version: v1, hierarchicalQuotas: {failurePolicy: fail}}",
                "hierarchicalQuotas.failurePolicy",
                "unknown value `fail`, expected `Ignore` or `Fail`",
            ),
        ] {
            is_refused(text, key, reason);
        }
    }

    #[test]
    fn a_faulty_pattern_or_name_is_named_with_its_key() {
        for (text, key, reason) in [
            ("{version: v1, includedNamespaceRegex: a)|(b}", "includedNamespaceRegex", "a)|(b"),
            ("{version: v1, includedNamespaceRegex: 'x{1,2000}'}", "includedNamespaceRegex", "at most 1000"),
            ("{version: v1, managedNamespaceLabels: ['x**']}", "managedNamespaceLabels", "repetition"),
            (
                "{version: v1, managedNamespaceLabels: ['hnc.x-k8s.io/.*']}",
                "managedNamespaceLabels",
                "cannot be managed",
            ),
            (
                "{version: v1, managedNamespaceAnnotations: ['accurate\\.cybozu\\.com/.*']}",
                "managedNamespaceAnnotations",
                "the keys of accurate.cybozu.com cannot be managed",
            ),
            ("{version: v1, externalManagers: {hnc.x-k8s.io: [a]}}", "externalManagers", "no other manager"),
            (
                "{version: v1, externalManagers: {'': [a]}}",
                "externalManagers",
                "\"\": expected a value of the annotation",
            ),
            (
                "{version: v1, externalManagers: {v: [a, '']}}",
                "externalManagers.v",
                "\"\": expected the name of a user",
            ),
            ("{version: v1, restoreIdentities: ['']}", "restoreIdentities", "user or a group"),
            (
                "{version: v1, propagation: {nopropagationLabels: [a]}}",
                "propagation.nopropagationLabels",
                "KEY=VALUE",
            ),
            (
                "{version: v1, propagation: {unpropagatedLabels: ['[']}}",
                "propagation.unpropagatedLabels",
                "[",
            ),
            ("{version: v1, accurate: {labelKeys: []}}", "accurate.labelKeys", "unknown field `labelKeys`"),
            (
                "{version: v1, accurate: {config: {labelKeys: ['[']}}}",
                "accurate.config.labelKeys[0]",
                "\"[\": a class of characters",
            ),
            (
                "{version: v1, accurate: {config: {watches: [{plural: pods}]}}}",
                "accurate.config.watches[0].plural",
                "unknown field `plural`",
            ),
            (
                "{version: v1, accurate: {featureGates: {A: true}}}",
                "accurate.featureGates.A",
                "no such feature gate",
            ),
            ("{version: v1, propagation: {rbacOnConflict: keep}}", "propagation.rbacOnConflict", "\"keep\""),
        ] {
            is_refused(text, key, reason);
        }
    }

    fn is_refused(text: &str, key: &str, reason: &str) {
        let invalid = SharedSettings::parse(text).expect_err(text);
        assert_eq!(invalid.key, key, "{text}: {invalid}");
        assert!(invalid.to_string().contains(reason), "{text}: {invalid}");
    }
}
