//! The propagated kinds and how an object of one is named.

use std::fmt;

use crate::Name;

/// A kind of namespaced object that is propagated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for core.
    pub group: String,
    /// The version in which objects are read and written.
    pub version: String,
    /// `Role`, `Secret`, …
    pub kind: String,
    /// The plural name in URLs, `roles`.
    pub resource: String,
}

impl Kind {
    /// `Role` of `rbac.authorization.k8s.io/v1`, which is always propagated.
    pub fn role() -> Self {
        Self::rbac("Role", "roles")
    }

    /// `RoleBinding` of `rbac.authorization.k8s.io/v1`, which is always propagated.
    pub fn role_binding() -> Self {
        Self::rbac("RoleBinding", "rolebindings")
    }

    fn rbac(kind: &str, resource: &str) -> Self {
        Self {
            group: "rbac.authorization.k8s.io".into(),
            version: "v1".into(),
            kind: kind.into(),
            resource: resource.into(),
        }
    }

    /// Whether objects of this kind give rights to subjects. These are taken away first and given last, so that access
    /// is never wider than before or after a change.
    pub fn binds_subjects(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "RoleBinding"
    }

    /// Whether objects of this kind say what a binding is worth.
    pub fn holds_rules(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "Role"
    }

    /// `roles.rbac.authorization.k8s.io`, or just the resource for core kinds.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    /// `rbac.authorization.k8s.io/v1`, or `v1` for core kinds.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// As HNC's messages write a kind: `rbac.authorization.k8s.io/v1, Kind=Role`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// A kind's place in the list that a forest was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub(crate) u16);

/// An object's identity within its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// What it is.
    pub kind: KindId,
    /// Its name.
    pub name: Name,
}
