//! The settings of Accurate's API (sections 5 and 6 of its contract), already parsed.

use super::glob::Keys;
use super::naming::NamingPolicy;
use crate::core::kind::Kind;

/// On what Accurate's rules and plans depend. The default copies nothing.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `labelKeys`: labels of the upstream namespace that flow to the next ones.
    pub label_keys: Keys,
    /// `annotationKeys`: the same for annotations.
    pub annotation_keys: Keys,
    /// `subNamespaceLabelKeys`: labels that a `SubNamespace` may set on its namespace.
    pub sub_namespace_label_keys: Keys,
    /// `subNamespaceAnnotationKeys`: the same for annotations.
    pub sub_namespace_annotation_keys: Keys,
    /// `propagateLabelKeyExcludes`: labels that copies of objects do not get.
    pub label_excludes: Keys,
    /// `propagateAnnotationKeyExcludes`: the same for annotations.
    pub annotation_excludes: Keys,
    /// `watches`: the kinds whose objects are copied.
    pub watches: Vec<Kind>,
    /// `namingPolicies`, in order.
    pub naming_policies: Vec<NamingPolicy>,
    /// `--webhook-allow-cascading-deletion`.
    pub allow_cascading_deletion: bool,
    /// Whether a user's own object is overwritten by a source in mode `update` of the same name, as Accurate does. Otherwise it
    /// is kept and reported. Objects that restrict are overwritten in any case.
    pub overwrite_own_objects: bool,
    /// Whether a user who may create or change a namespace may also give it a parent or a template, as in Accurate. Otherwise the user also
    /// needs rights in both namespaces.
    pub trust_namespace_editors: bool,
}

impl Settings {
    /// Whether objects of this kind are copied.
    pub fn watches(&self, kind: &Kind) -> bool {
        self.watches.iter().any(|watched| watched.group == kind.group && watched.kind == kind.kind)
    }

    /// Whether a label of a namespace flows to the next ones.
    pub(crate) fn hands_down_label(&self, key: &str) -> bool {
        self.label_keys.matches(key) && !super::keys::is_reserved(key)
    }

    /// The same for an annotation.
    pub(crate) fn hands_down_annotation(&self, key: &str) -> bool {
        self.annotation_keys.matches(key) && !super::keys::is_reserved(key)
    }

    /// Whether the hierarchy may set an annotation on a namespace.
    pub(crate) fn may_set_annotation(&self, key: &str) -> bool {
        (self.annotation_keys.matches(key) || self.sub_namespace_annotation_keys.matches(key))
            && !super::keys::is_reserved(key)
    }
}
