//! The objects that are kept: their kinds, names, and how they should be.

use std::collections::BTreeMap;
use std::fmt;

use hns_api::names;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde_json::Value;

use crate::registrations::{RegistrationSettings, admission};

/// What kind of object. The order is that of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Policy,
    Binding,
    Validating,
    Mutating,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Policy => "ValidatingAdmissionPolicy",
            Self::Binding => "ValidatingAdmissionPolicyBinding",
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", self.name()))
    }
}

/// One object that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) name: String,
}

impl Target {
    fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the {} {:?}", self.kind.name(), self.name)
    }
}

/// Everything that may be ours, wanted or not.
pub(super) fn targets() -> Vec<Target> {
    let policies = names::policies::ALL
        .into_iter()
        .flat_map(|name| [Kind::Policy, Kind::Binding].map(|kind| Target::new(kind, name)));
    let webhooks = [
        Target::new(Kind::Validating, names::VALIDATING_WEBHOOK_CONFIGURATION),
        Target::new(Kind::Mutating, names::MUTATING_WEBHOOK_CONFIGURATION),
    ];
    policies.chain(webhooks).collect()
}

/// How the objects should be.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Policies and bindings; none where they are turned off.
    pub(super) policies: BTreeMap<Target, Value>,
    /// The webhook configurations.
    pub(super) webhooks: BTreeMap<Target, Value>,
    /// The same for as long as the policies are not in force.
    pub(super) webhooks_alone: BTreeMap<Target, Value>,
}

impl Wanted {
    /// # Errors
    /// Never: the objects are plain data.
    pub(super) fn new(settings: &RegistrationSettings) -> Result<Self, serde_json::Error> {
        let whole = admission(settings);
        let alone = admission(&RegistrationSettings { policies: false, ..settings.clone() });
        let mut policies = BTreeMap::new();
        for policy in &whole.policies {
            insert(&mut policies, Kind::Policy, policy)?;
        }
        for binding in &whole.bindings {
            insert(&mut policies, Kind::Binding, binding)?;
        }
        let configurations = |of: &crate::registrations::Admission| {
            let mut webhooks = BTreeMap::new();
            insert(&mut webhooks, Kind::Validating, &of.validating)?;
            insert(&mut webhooks, Kind::Mutating, &of.mutating)?;
            Ok::<_, serde_json::Error>(webhooks)
        };
        Ok(Self { policies, webhooks: configurations(&whole)?, webhooks_alone: configurations(&alone)? })
    }
}

fn insert(
    into: &mut BTreeMap<Target, Value>,
    kind: Kind,
    object: &impl Serialize,
) -> Result<(), serde_json::Error> {
    let object = serde_json::to_value(object)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    into.insert(Target::new(kind, name), object.clone());
    Ok(())
}
