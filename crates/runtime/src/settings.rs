//! What the flags of both binaries come to, as the `ConfigMap` `hnc-settings` says it to everybody: by flag, with a digest of what
//! both must have in common. Pure but for the submodules: [`watch`] reads the `ConfigMap`, [`publish`] writes it.

mod metrics;
mod publish;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hns_api::names::{CONTROLLER_SERVICE_ACCOUNT, WEBHOOK_SERVICE_ACCOUNT};
use serde::{Deserialize, Serialize};

pub use self::publish::{Claim, publish};
pub use self::watch::{Seen, follow};
use crate::args::{self, Stop};

/// So many flags, and so many values of each, are named where settings differ.
const NAMED: usize = 5;

/// The value of a flag, or all values of one that may be given several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// One value. Booleans are `true` or `false`.
    One(String),
    /// All values; their order means nothing.
    Many(BTreeSet<String>),
}

impl Setting {
    fn values(&self) -> Vec<&str> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values.iter().map(String::as_str).collect(),
        }
    }
}

/// Settings by the names of flags, without dashes. Equal settings are written alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Effective(BTreeMap<String, Setting>);

impl Effective {
    pub(crate) fn set(&mut self, flag: &str, setting: Setting) {
        self.0.insert(flag.to_owned(), setting);
    }

    pub(crate) fn get(&self, flag: &str) -> Option<&Setting> {
        self.0.get(flag)
    }

    pub(crate) fn get_mut(&mut self, flag: &str) -> Option<&mut Setting> {
        self.0.get_mut(flag)
    }

    /// A fingerprint: the same for the same settings in every process, whatever its version, and for no others.
    pub fn digest(&self) -> String {
        use fmt::Write as _;
        let text = serde_json::to_vec(&self.0).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        digest.as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// What rules and plans depend on, read from the flags as the binaries read it; and the flags that this version does not
    /// know, which are left out.
    ///
    /// # Errors
    /// A value that no binary would have started with.
    pub fn settings(&self) -> Result<(forest::Settings, Vec<&str>), Stop> {
        let known = args::common_flags();
        let (ours, unknown): (Vec<_>, Vec<_>) = self.0.iter().partition(|(flag, _)| known.contains(*flag));
        let words = ours
            .iter()
            .flat_map(|(flag, setting)| setting.values().into_iter().map(move |it| format!("--{flag}={it}")));
        let words = std::iter::once("settings".to_owned()).chain(words);
        let parsed = args::parse_from::<args::Common>(words)?;
        let settings = parsed.args.args.settings().map_err(|error| Stop::Usage(format!("{error:#}")))?;
        Ok((settings, unknown.into_iter().map(|(flag, _)| flag.as_str()).collect()))
    }

    /// The flags in which `self`, the settings of `one`, are others than those of `other`: a clause each.
    fn differences(&self, one: Component, other: Component, others: &Self) -> Vec<String> {
        let flags: BTreeSet<&String> = self.0.keys().chain(others.0.keys()).collect();
        flags
            .into_iter()
            .filter_map(|flag| {
                let has = |component, of: &Self, not: &Self| {
                    let had = not.get(flag).map(Setting::values).unwrap_or_default();
                    let mut more = of.get(flag).map(Setting::values).unwrap_or_default();
                    more.retain(|value| !had.contains(value));
                    let more: Vec<String> = more.iter().map(|it| format!("--{flag}={it}")).collect();
                    (!more.is_empty()).then(|| format!("only {component} has {}", some(&more, " ")))
                };
                let clauses: Vec<String> =
                    [has(one, self, others), has(other, others, self)].into_iter().flatten().collect();
                (!clauses.is_empty()).then(|| clauses.join(", "))
            })
            .collect()
    }
}

fn some(texts: &[String], between: &str) -> String {
    let shown = texts.iter().take(NAMED).cloned().collect::<Vec<_>>().join(between);
    if texts.len() > NAMED { format!("{shown} and {} more", texts.len() - NAMED) } else { shown }
}

/// One of the two binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// `hns-controller`.
    Controller,
    /// `hns-webhook`.
    Webhook,
}

impl Component {
    /// The key of its settings in the `ConfigMap`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Webhook => "webhook",
        }
    }

    /// The key of their digest.
    pub fn digest_key(self) -> &'static str {
        match self {
            Self::Controller => "controller.digest",
            Self::Webhook => "webhook.digest",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => CONTROLLER_SERVICE_ACCOUNT,
            Self::Webhook => WEBHOOK_SERVICE_ACCOUNT,
        })
    }
}

/// What a binary publishes of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The binary's version.
    pub version: String,
    /// What both binaries must have in common; the digest is of this alone.
    pub common: Effective,
    /// The rest of what changes what is judged or done.
    pub own: Effective,
}

impl Document {
    /// The entries of the `ConfigMap` that say it.
    pub fn data(&self, component: Component) -> BTreeMap<String, String> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let digest = (component.digest_key().to_owned(), self.common.digest());
        [(component.key().to_owned(), text), digest].into()
    }

    /// What a component has said in the `ConfigMap`; `None` if it has said nothing, or the digest does not fit: then somebody
    /// else has written there.
    pub fn read(data: &BTreeMap<String, String>, component: Component) -> Option<Self> {
        let document: Self = serde_json::from_str(data.get(component.key())?).ok()?;
        (data.get(component.digest_key())? == &document.common.digest()).then_some(document)
    }
}

/// Why the two binaries do not agree, as the end of a sentence; `None` if they do, or one has said nothing.
pub fn difference(controller: Option<&Document>, webhook: Option<&Document>) -> Option<String> {
    let (controller, webhook) = (&controller?.common, &webhook?.common);
    let clauses = controller.differences(Component::Controller, Component::Webhook, webhook);
    (controller != webhook).then(|| some(&clauses, "; "))
}
