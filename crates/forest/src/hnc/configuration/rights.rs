//! The rights that the two service accounts need for a kind, and the messages about missing ones. Sends no requests.

use std::fmt;

use crate::core::kind::{Kind, KindSettings, Mode};
pub use crate::core::verdict::{Account, Right};

impl Account {
    /// Both accounts.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Controller];

    /// The verbs it needs for a kind in this mode. The webhook also reads objects of ignored kinds, so that it can report what
    /// would be overwritten if they were propagated.
    fn verbs(self, mode: Mode) -> &'static [&'static str] {
        match (self, mode) {
            (Self::Webhook, _) => &["list", "watch"],
            (Self::Controller, Mode::Ignore) => &[],
            (Self::Controller, _) => &["get", "list", "watch", "create", "update", "delete"],
        }
    }

    /// Its name, which is also that of the `ClusterRole` with its rights on the hierarchy, roles and role bindings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "hns-webhook",
            Self::Controller => "hns-controller",
        }
    }

    /// What does not work without a right.
    fn consequence(self) -> &'static str {
        match self {
            Self::Webhook => "it cannot be known what would be overwritten, and no namespace can join a tree",
            Self::Controller => "not all of them are propagated",
        }
    }
}

/// The rights that a kind needs.
pub fn needed(kind: &KindSettings) -> Vec<Right> {
    let of = |account: Account| {
        let right = move |verb: &&'static str| Right {
            account,
            verb,
            group: kind.kind.group.as_str().into(),
            resource: kind.kind.resource.as_str().into(),
        };
        account.verbs(kind.mode).iter().map(right)
    };
    Account::ALL.into_iter().flat_map(of).collect()
}

/// The verbs that an account needs for a kind and lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The account.
    pub account: Account,
    /// The kind.
    pub kind: Kind,
    /// The verbs. Never empty.
    pub verbs: Vec<&'static str>,
}

/// The missing rights for these kinds, in a stable order. `has` says whether a right is granted; a right that `has` does not know
/// is not reported.
pub fn lacks<'a>(
    kinds: impl IntoIterator<Item = &'a KindSettings>,
    has: impl Fn(&Right) -> Option<bool>,
) -> Vec<Lack> {
    let mut lacks: Vec<Lack> = Vec::new();
    for kind in kinds {
        for right in needed(kind).into_iter().filter(|right| has(right) == Some(false)) {
            match lacks.last_mut().filter(|last| last.account == right.account && last.kind == kind.kind) {
                Some(last) => last.verbs.push(right.verb),
                None => lacks.push(Lack {
                    account: right.account,
                    kind: kind.kind.clone(),
                    verbs: vec![right.verb],
                }),
            }
        }
    }
    lacks
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, kind, verbs } = self;
        let (name, resource) = (account.name(), kind.group_resource());
        write!(
            f,
            "the service account {name} may not {} {resource} in all namespaces, so {}; ",
            verbs.join(", "),
            account.consequence()
        )?;
        if kind.is_rbac() {
            write!(f, "grant it in the ClusterRole {name}")
        } else {
            write!(
                f,
                "add {resource} to propagation.resources of the chart, or grant it in the ClusterRole {name}-propagation"
            )
        }
    }
}
