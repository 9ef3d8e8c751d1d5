//! The objects of the reconciler: their kinds, their names, and the required content.

use std::collections::BTreeMap;
use std::fmt;

use hns_api::names;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde_json::Value;

use crate::registrations::{Admission, RegistrationSettings, admission};

/// The kind of an object. Objects are written in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Policy,
    MutatingPolicy,
    Binding,
    MutatingBinding,
    Validating,
    Mutating,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Policy => "ValidatingAdmissionPolicy",
            Self::MutatingPolicy => "MutatingAdmissionPolicy",
            Self::Binding => "ValidatingAdmissionPolicyBinding",
            Self::MutatingBinding => "MutatingAdmissionPolicyBinding",
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    /// Whether it is a policy or a binding.
    pub(super) fn is_of_policies(self) -> bool {
        !matches!(self, Self::Validating | Self::Mutating)
    }

    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", self.name()))
    }
}

/// The kind and the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) name: String,
}

impl Target {
    pub(super) fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the {} {:?}", self.kind.name(), self.name)
    }
}

/// All objects that the reconciler may write, under any settings. `mutating_policies` is whether the API server has such a kind.
pub(super) fn targets(mutating_policies: bool) -> Vec<Target> {
    let policies = names::policies::ALL
        .into_iter()
        .flat_map(|name| [Kind::Policy, Kind::Binding].map(|kind| Target::new(kind, name)));
    let webhooks = [
        Target::new(Kind::Validating, names::VALIDATING_WEBHOOK_CONFIGURATION),
        Target::new(Kind::Validating, names::PARENT_WEBHOOK_CONFIGURATION),
        Target::new(Kind::Mutating, names::MUTATING_WEBHOOK_CONFIGURATION),
    ];
    let mutating = [Kind::MutatingPolicy, Kind::MutatingBinding];
    let mutating = mutating.map(|kind| Target::new(kind, names::policies::DEFAULTS));
    let mutating = mutating.into_iter().filter(|_| mutating_policies);
    policies.chain(mutating).chain(webhooks).collect()
}

/// The objects that the settings require.
#[derive(Debug)]
pub(super) struct Required {
    /// Policies and bindings; empty if the settings disable them.
    pub(super) policies: BTreeMap<Target, Value>,
    /// The webhook configurations beside the policies.
    pub(super) webhooks: BTreeMap<Target, Value>,
    /// The webhook configurations while the policies are not enforced.
    pub(super) webhooks_alone: BTreeMap<Target, Value>,
}

impl Required {
    /// # Errors
    /// Never: the objects are plain data.
    pub(super) fn new(settings: &RegistrationSettings) -> Result<Self, serde_json::Error> {
        let whole = admission(settings);
        let alone = RegistrationSettings { policies: false, mutating_policy: false, ..settings.clone() };
        let alone = admission(&alone);
        let mut policies = BTreeMap::new();
        for policy in &whole.policies {
            insert(&mut policies, Kind::Policy, policy)?;
        }
        for binding in &whole.bindings {
            insert(&mut policies, Kind::Binding, binding)?;
        }
        if let Some([policy, binding]) = &whole.mutating_policy {
            insert(&mut policies, Kind::MutatingPolicy, policy)?;
            insert(&mut policies, Kind::MutatingBinding, binding)?;
        }
        let configurations = |of: &Admission| {
            let mut webhooks = BTreeMap::new();
            insert(&mut webhooks, Kind::Validating, &of.validating)?;
            insert(&mut webhooks, Kind::Validating, &of.parents)?;
            insert(&mut webhooks, Kind::Mutating, &of.mutating)?;
            Ok::<_, serde_json::Error>(webhooks)
        };
        Ok(Self { policies, webhooks: configurations(&whole)?, webhooks_alone: configurations(&alone)? })
    }

    /// All required objects.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.policies.keys().chain(self.webhooks.keys())
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
