//! The settings of the operator.
//!
//! Follows section 5 of docs/compatibility.md, with the include pattern anchored as a whole (`^(?:PATTERN)$`).

use std::sync::Arc;

use regex::{Regex, RegexSet};

use super::keys;
use super::tracking::is_tracking_key;
use crate::core::kind::{KindSettings, OnConflict};
use crate::core::managed::{ManagedNames, Unmanaged};
use crate::core::patterns::Patterns;

/// The settings of the operator on which rules and plans depend.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of the operator")]
pub struct Settings {
    namespaces: Arc<ManagedNames>,
    managed_labels: RegexSet,
    managed_annotations: RegexSet,
    /// Whether a `HierarchyConfiguration` is denied that would override a managed value of a descendant.
    pub refuse_label_conflicts: bool,
    /// Whether a user without authority in the hierarchy is refused with 403 instead of 401.
    pub refuse_with_403: bool,
    /// Who may set tree labels, and `managed-by` to this value, on namespaces that another tool manages.
    pub external_managers: Vec<(String, Identity)>,
    /// Who may restore exported namespaces, anchors, hierarchies and copies as they were.
    pub restore_identities: Vec<Identity>,
    /// Whether each namespace has an annotation with its ancestry.
    pub ancestry_annotation: bool,
    /// Objects with one of these labels, key and value, never propagate.
    pub nopropagation_labels: Vec<(String, String)>,
    /// Labels that copies do not take over.
    pub unpropagated_labels: Patterns,
    /// Annotations that copies do not take over.
    pub unpropagated_annotations: Patterns,
    /// Whether copies include the labels and annotations by which deployment tools find their objects.
    pub propagate_tracking_metadata: bool,
    /// How conflicts of Roles and `RoleBindings` are treated.
    pub rbac_on_conflict: OnConflict,
    /// Whether hierarchical quotas are enforced.
    pub hierarchical_quotas: bool,
    /// The `ClusterRole` to which the creator of a subnamespace is bound in it; `None` to bind nothing.
    pub initial_admin: Option<Box<str>>,
}

/// A user or a group that the operator has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(pub String);

impl Identity {
    /// Whether it is this user, or one of these groups.
    pub fn is(&self, user: &str, groups: &[String]) -> bool {
        self.0 == user || groups.contains(&self.0)
    }
}

impl Settings {
    /// The settings of an installation in `own_namespace`, which is always excluded.
    ///
    /// # Errors
    /// `included_pattern` is not a regular expression.
    pub fn new<I, S>(own_namespace: &str, excluded: I, included_pattern: &str) -> Result<Self, regex::Error>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let included = Regex::new(&format!("^(?:{included_pattern})$"))?;
        Ok(Self::anchored(own_namespace, excluded, included))
    }

    /// The same, with a pattern that is already anchored.
    pub fn anchored<I, S>(own_namespace: &str, excluded: I, included: Regex) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        Self {
            namespaces: Arc::new(ManagedNames::new(own_namespace, excluded, included)),
            managed_labels: RegexSet::empty(),
            managed_annotations: RegexSet::empty(),
            refuse_label_conflicts: false,
            refuse_with_403: false,
            external_managers: Vec::new(),
            restore_identities: Vec::new(),
            ancestry_annotation: false,
            nopropagation_labels: Vec::new(),
            unpropagated_labels: Patterns::default(),
            unpropagated_annotations: Patterns::default(),
            propagate_tracking_metadata: false,
            rbac_on_conflict: OnConflict::default(),
            hierarchical_quotas: false,
            initial_admin: None,
        }
    }

    /// Adds the labels and annotations of namespaces that the hierarchy manages, as patterns that must match a whole key.
    ///
    /// # Errors
    /// A pattern is not a regular expression.
    pub fn managing<S: AsRef<str>>(mut self, labels: &[S], annotations: &[S]) -> Result<Self, regex::Error> {
        let set = |patterns: &[S]| RegexSet::new(patterns.iter().map(|it| format!("^(?:{})$", it.as_ref())));
        self.managed_labels = set(labels)?;
        self.managed_annotations = set(annotations)?;
        Ok(self)
    }

    /// Whether the hierarchy manages this label of namespaces. The keys of a hierarchy are never managed by a pattern.
    pub fn is_managed_label(&self, key: &str) -> bool {
        group_in(key).is_none() && self.managed_labels.is_match(key)
    }

    /// The patterns of managed labels, then those of managed annotations, with anchors: `^(?:…)$`.
    pub fn managed_patterns(&self) -> [&[String]; 2] {
        [self.managed_labels.patterns(), self.managed_annotations.patterns()]
    }

    /// Whether the hierarchy manages this annotation of namespaces.
    pub fn is_managed_annotation(&self, key: &str) -> bool {
        group_in(key).is_none() && self.managed_annotations.is_match(key)
    }

    /// Whether propagation ignores this label or annotation of objects: it is neither copied nor compared.
    pub fn is_ignored_key(&self, key: &str) -> bool {
        !self.propagate_tracking_metadata && is_tracking_key(key)
    }

    /// How conflicts of a kind are treated: by its configuration, else by the default for such kinds.
    pub fn on_conflict(&self, kind: &KindSettings) -> OnConflict {
        kind.on_conflict.unwrap_or_else(|| match &kind.kind {
            kind if kind.restricts() => OnConflict::Overwrite,
            kind if kind.is_rbac() => self.rbac_on_conflict,
            _ => OnConflict::default(),
        })
    }

    /// Which namespaces are managed.
    pub(crate) fn namespaces(&self) -> &Arc<ManagedNames> {
        &self.namespaces
    }

    /// Whether `namespace` is excluded by name.
    pub fn is_listed(&self, namespace: &str) -> bool {
        self.namespaces.is_excluded(namespace)
    }

    /// Why `namespace` is not managed, or `None` when it is. The empty name ("no parent") counts as managed.
    pub fn unmanaged(&self, namespace: &str) -> Option<Unmanaged> {
        self.namespaces.unmanaged(namespace)
    }

    /// Whether `namespace` is managed.
    pub fn is_managed(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }
}

/// The group of a hierarchy, HNC's or Accurate's, that this key contains.
pub fn group_in(key: &str) -> Option<&'static str> {
    [keys::GROUP, crate::accurate::keys::GROUP].into_iter().find(|group| key.contains(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::kind::{Kind, Mode};

    #[test]
    fn a_pattern_is_anchored_as_a_whole() {
        let settings = Settings::new("hnc-system", ["kube-system"], "foo|bar").unwrap();
        let cases = [
            ("", true),
            ("foo", true),
            ("bar", true),
            ("foobaz", false),
            ("xbar", false),
            ("kube-system", false),
            ("hnc-system", false),
        ];
        for (name, managed) in cases {
            assert_eq!(settings.is_managed(name), managed, "{name:?}");
        }
    }

    #[test]
    fn exclusion_wins_over_inclusion() {
        let settings = Settings::new("hnc-system", ["team"], ".*").unwrap();
        assert_eq!(settings.unmanaged("team"), Some(Unmanaged::Excluded));
        assert_eq!(settings.unmanaged("hnc-system"), Some(Unmanaged::Own));
    }

    #[test]
    fn what_becomes_of_conflicts_is_said_by_the_configuration_or_follows_from_the_kind() {
        use OnConflict::{Keep, Overwrite, Report};
        let mut settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        settings.rbac_on_conflict = Report;
        let cases = [
            ("", "Secret", Keep),
            ("", "LimitRange", Overwrite),
            ("", "ResourceQuota", Overwrite),
            ("networking.k8s.io", "NetworkPolicy", Overwrite),
            ("example.com", "NetworkPolicy", Keep),
            ("rbac.authorization.k8s.io", "Role", Report),
            ("rbac.authorization.k8s.io", "RoleBinding", Report),
        ];
        for (group, name, by_default) in cases {
            let (version, resource) = ("v1".into(), name.to_lowercase());
            let kind = Kind { group: group.into(), version, kind: name.into(), resource };
            let mut kind = KindSettings::new(kind, Mode::Propagate);
            assert_eq!(settings.on_conflict(&kind), by_default, "{name}.{group}");
            for said in OnConflict::ALL {
                kind.on_conflict = Some(said);
                assert_eq!(settings.on_conflict(&kind), said, "{name}.{group}");
            }
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        assert!(Settings::new("hnc-system", ["team"], "(").is_err());
    }
}
