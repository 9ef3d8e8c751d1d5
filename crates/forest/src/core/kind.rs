//! The propagated kinds and how an object of one is named.

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

    /// Whether objects of this kind give rights to subjects. These are taken away first and given last, so that access
    /// is never wider than before or after a change.
    pub fn binds_subjects(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "RoleBinding"
    }

    /// Whether objects of this kind say what a binding is worth.
    pub fn holds_rules(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && self.kind == "Role"
    }

    /// Whether objects of this kind give rights or say what rights are.
    pub fn is_rbac(&self) -> bool {
        self.binds_subjects() || self.holds_rules()
    }

    /// Whether objects of this kind restrict what may be done in their namespace. No user may escape a restriction from above
    /// by taking its name.
    pub fn restricts(&self) -> bool {
        matches!(
            (self.group.as_str(), self.kind.as_str()),
            ("", "LimitRange" | "ResourceQuota") | ("networking.k8s.io", "NetworkPolicy")
        )
    }

    /// Whether objects of this kind are in force only when their status says so.
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

/// What is done with the objects of a kind (section 2.3 of docs/compatibility.md).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Every source goes to all namespaces below, unless it says otherwise.
    #[default]
    Propagate,
    /// Only sources that opt in are propagated.
    AllowPropagate,
    /// Copies are deleted; sources are left alone.
    Remove,
    /// Nothing is done; copies stay as they are.
    Ignore,
}

impl Mode {
    /// Whether anything is propagated in this mode, so that admission has something to judge.
    pub fn propagates(self) -> bool {
        matches!(self, Self::Propagate | Self::AllowPropagate)
    }
}

/// What becomes of a descendant's own object where one of the same name is propagated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// A request that leads to a conflict is refused. Where no request was judged, the object is kept, and that is reported.
    #[default]
    Keep,
    /// No request is refused. The object is kept, and that is reported.
    Report,
    /// A request that leads to a conflict is refused. Where no request was judged, the object is replaced, as HNC does.
    Overwrite,
}

impl OnConflict {
    /// In the order in which they are documented.
    pub const ALL: [Self; 3] = [Self::Keep, Self::Report, Self::Overwrite];

    /// Whether admission refuses what leads to a conflict.
    pub fn refuses(self) -> bool {
        self != Self::Report
    }

    /// Whether the controller replaces an object that is in the way.
    pub fn replaces(self) -> bool {
        self == Self::Overwrite
    }
}

/// A kind and how the operator wants it treated.
#[derive(Debug, Clone, PartialEq)]
pub struct KindSettings {
    /// Which kind.
    pub kind: Kind,
    /// What is done with its objects.
    pub mode: Mode,
    /// What is done about conflicts, if the configuration says so; the dialect's settings give the default.
    pub on_conflict: Option<OnConflict>,
    /// Objects of these names never propagate.
    pub excluded_names: Patterns,
}

impl KindSettings {
    /// The kind in this mode, with nothing else said of it.
    pub fn new(kind: Kind, mode: Mode) -> Self {
        Self { kind, mode, on_conflict: None, excluded_names: Patterns::default() }
    }
}

/// A kind's place in the order in which a forest came to know the kinds. It stands for the same kind for ever.
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
