//! Which flags the two binaries must have in common, and which a binary has for itself, as data for others to read.
//!
//! A flag of [`HierarchyArgs`], [`PropagationArgs`] or [`CertificateArgs`] is a common one from the day it is added. Decides nothing.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, Parser};

use super::go::is_boolean;
use super::{
    CertificateArgs, CommonArgs, HierarchyArgs, IssuerArgs, LeaderElectionArgs, PropagationArgs,
    WebhookServerArgs, values,
};
use crate::settings::{Effective, Setting};

/// Of the flags that stand beside the groups: what is the hierarchy's at all.
const SCOPE: [&str; 3] = ["namespace", EXCLUDED, "included-namespace-regex"];
const EXCLUDED: &str = "excluded-namespace";

/// A command line of common flags alone.
#[derive(Debug, Parser)]
pub(crate) struct Common {
    /// All of them, and flags that settings do not depend on.
    #[command(flatten)]
    pub(crate) args: CommonArgs,
}

/// The names of the flags that both binaries must be given alike.
pub(crate) fn common() -> BTreeSet<String> {
    let groups = PropagationArgs::augment_args(HierarchyArgs::augment_args(Command::new("groups")));
    let groups = CertificateArgs::augment_args(groups);
    SCOPE.into_iter().map(str::to_owned).chain(names(&groups)).collect()
}

/// What was given of these, and of the flags that only this program has: without those about how it is served, connected and
/// watched, which change nothing that users see.
pub(super) fn effective(command: &Command, matches: &ArgMatches) -> (Effective, Effective) {
    let common = common();
    let served = LeaderElectionArgs::augment_args(WebhookServerArgs::augment_args(Command::new("served")));
    let served = IssuerArgs::augment_args(served);
    let elsewhere: BTreeSet<String> =
        names(&CommonArgs::augment_args(Command::new("common"))).chain(names(&served)).collect();
    let mut own = Effective::default();
    let mut shared = Effective::default();
    for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
        let Some(name) = arg.get_long() else { continue };
        if common.contains(name) {
            shared.set(name, setting(arg, matches));
        } else if !elsewhere.contains(name) {
            own.set(name, setting(arg, matches));
        }
    }
    (with_own_namespace(shared), own)
}

fn names(command: &Command) -> impl Iterator<Item = String> {
    command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned))
}

/// The order in which values were given, and how a boolean was spelled, mean nothing.
fn setting(arg: &Arg, matches: &ArgMatches) -> Setting {
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let mut given = raw.map(|value| value.to_string_lossy().into_owned());
    if matches!(arg.get_action(), ArgAction::Append) {
        return Setting::Many(given.collect());
    }
    let value = given.next_back().unwrap_or_default();
    let boolean = is_boolean(arg).then(|| values::boolean(&value).ok()).flatten();
    Setting::One(boolean.map_or(value, |it| it.to_string()))
}

/// The program's own namespace is excluded whether that is said or not.
fn with_own_namespace(mut shared: Effective) -> Effective {
    let own = match shared.get("namespace") {
        Some(Setting::One(name)) => name.clone(),
        _ => return shared,
    };
    if let Some(Setting::Many(excluded)) = shared.get_mut(EXCLUDED) {
        excluded.insert(own);
    }
    shared
}
