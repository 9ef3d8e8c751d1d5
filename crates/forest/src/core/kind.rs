//! The propagated kinds, and the identity of an object.

use super::name::Name;
use super::patterns::Patterns;

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

    /// Whether objects of this kind give rights to subjects. Plans remove these first and create them last, so that access is
    /// never wider than before or after a change.
    pub fn binds_subjects(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "RoleBinding"
    }

    /// Whether objects of this kind define what a binding grants.
    pub fn holds_rules(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "Role"
    }

    /// Whether objects of this kind give or define rights.
    pub fn is_rbac(&self) -> bool {
        self.binds_subjects() || self.holds_rules()
    }

    /// Whether objects of this kind restrict what users may do in their namespace. A user must not escape a restriction from
    /// above by taking its name.
    pub fn restricts(&self) -> bool {
        restricts(&self.group, &self.kind)
    }

    /// The group and the resource of such a kind, also where the API server was not asked for the resource.
    pub fn restriction(&self) -> Option<(&'static str, &'static str)> {
        restriction(&self.group, &self.kind)
    }

    /// Whether objects of this kind take effect only when their status says so.
    pub fn is_quota(&self) -> bool {
        self.group.is_empty() && self.kind == "ResourceQuota"
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

/// See [`Kind::restricts`].
pub(crate) fn restricts(group: &str, kind: &str) -> bool {
    restriction(group, kind).is_some()
}

fn restriction(group: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    match (group, kind) {
        ("", "LimitRange") => Some(("", "limitranges")),
        ("", "ResourceQuota") => Some(("", "resourcequotas")),
        ("networking.k8s.io", "NetworkPolicy") => Some(("networking.k8s.io", "networkpolicies")),
        _ => None,
    }
}

/// How the objects of a kind are treated (section 2.3 of docs/compatibility.md).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Every source propagates to all namespaces below, unless its annotations say otherwise.
    #[default]
    Propagate,
    /// Only sources that opt in are propagated.
    AllowPropagate,
    /// Copies are deleted; sources stay.
    Remove,
    /// Nothing is done; copies stay as they are.
    Ignore,
}

impl Mode {
    /// Whether objects propagate in this mode, so that admission reviews them.
    pub fn propagates(self) -> bool {
        matches!(self, Self::Propagate | Self::AllowPropagate)
    }

    /// Whether copies are read-only for users.
    pub fn protects(self) -> bool {
        self != Self::Ignore
    }
}

/// How a conflict is treated: a descendant has its own object where one of the same name propagates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Requests that lead to a conflict are denied. If a conflict exists anyway, the object is kept and reported.
    #[default]
    Keep,
    /// No request is denied. The object is kept and reported.
    Report,
    /// Requests that lead to a conflict are denied. If a conflict exists anyway, the object is replaced, as HNC does.
    Overwrite,
}

impl OnConflict {
    /// In the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Keep, Self::Report, Self::Overwrite];

    /// Whether admission denies requests that lead to a conflict.
    pub fn refuses(self) -> bool {
        self != Self::Report
    }

    /// Whether the controller replaces the descendant's own object.
    pub fn replaces(self) -> bool {
        self == Self::Overwrite
    }
}

/// A kind, and its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct KindSettings {
    /// Which kind.
    pub kind: Kind,
    /// How its objects are treated.
    pub mode: Mode,
    /// How conflicts are treated, if the configuration says so; otherwise the dialect's settings decide.
    pub on_conflict: Option<OnConflict>,
    /// Objects of these names never propagate.
    pub excluded_names: Patterns,
}

impl KindSettings {
    /// The kind in this mode, with defaults for everything else.
    pub fn new(kind: Kind, mode: Mode) -> Self {
        Self { kind, mode, on_conflict: None, excluded_names: Patterns::default() }
    }
}

/// The number of a kind, in the order in which a forest learned of the kinds. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub(crate) u16);

/// An object's identity within its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: KindId,
    /// Its name.
    pub name: Name,
}
