//! From HNC's command lines, written for Go's `flag` package, to ours.
//!
//! Translates the syntax and takes out the flags of HNC's manager that this program does not have. clap checks the values of the
//! others.

use std::{collections::BTreeSet, ffi::OsString};

use clap::{Arg, ArgMatches, Args as _, Command};

use super::{LeaderElectionArgs, SharedArgs, Stop, WebhookServerArgs, values, with_booleans};

/// Flags of HNC's manager that hns does not need.
const MEANINGLESS: &[(&str, Shape)] = &[
    ("cert-restart-on-secret-refresh", Shape::Boolean),
    ("enable-leader-election", Shape::Boolean),
    ("enable-stackdriver", Shape::Boolean),
    ("enable-test-log", Shape::Boolean),
    ("hrq-sync-interval", Shape::Value),
    ("max-reconciles", Shape::Value),
    ("no-webhooks", Shape::Boolean),
    ("suppress-object-tags", Shape::Boolean),
    ("webhooks-only", Shape::Boolean),
];

/// What may follow a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing: `--help`, `--version`.
    Switch,
    /// Nothing, or a value after `=`; never the next word.
    Boolean,
    /// A value after `=` or as the next word.
    Value,
}

/// Flags of HNC that were given and have no effect, by name without dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFlags {
    /// Without loss: hns does the same in another way, or the other binary has the flag.
    pub meaningless: BTreeSet<String>,
    /// Flags for keys of the settings document, which only `hns-controller` uses.
    pub shared: BTreeSet<String>,
}

impl IgnoredFlags {
    /// Logs at most one line per kind, with the flags. Call it once logging works.
    pub fn log(&self) {
        if !self.meaningless.is_empty() {
            tracing::info!(flags = %list(&self.meaningless), "flags that mean nothing here were ignored");
        }
        if !self.shared.is_empty() {
            tracing::warn!(
                flags = %list(&self.shared),
                "these flags have no effect here: set them in the ConfigMap hns-config, or on hns-controller"
            );
        }
    }

    fn add(&mut self, name: &str) {
        let set = if is_shared(name) { &mut self.shared } else { &mut self.meaningless };
        set.insert(name.to_owned());
    }
}

fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("--{name}")).collect();
    names.join(" ")
}

/// Rewrites a command line so that every flag of `command` has the form `--name=value`, and takes out the flags that only HNC, or
/// only the other binary, has.
pub(super) fn translate(
    command: &Command,
    words: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<(Vec<String>, IgnoredFlags), Stop> {
    let mut words = words.into_iter().map(|word| {
        word.into().into_string().map_err(|word| Stop::Usage(format!("not UTF-8: {}", word.display())))
    });
    let mut translated = Vec::from_iter(words.next().transpose()?);
    let mut ignored = IgnoredFlags::default();
    while let Some(word) = words.next().transpose()? {
        if word == "--" {
            // Go stops here, so no flag can follow.
            translated.push(word);
            translated.extend(words.by_ref().collect::<Result<Vec<_>, _>>()?);
            break;
        }
        let Some((name, given)) = split(&word)? else {
            translated.push(word);
            continue;
        };
        let (shape, ours) =
            shape(command, name).ok_or_else(|| Stop::Usage(format!("unknown flag --{name}")))?;
        let value = match (shape, given) {
            (Shape::Switch, _) => None,
            (Shape::Boolean, given) => Some(given.unwrap_or("true").to_owned()),
            (Shape::Value, Some(given)) => Some(given.to_owned()),
            (Shape::Value, None) => Some(
                words.next().transpose()?.ok_or_else(|| Stop::Usage(format!("--{name} needs a value")))?,
            ),
        };
        if ours {
            translated.push(value.map_or(format!("--{name}"), |value| format!("--{name}={value}")));
        } else {
            check_boolean(name, shape, value.as_deref())?;
            ignored.add(name);
        }
    }
    Ok((translated, ignored))
}

/// Splits a flag into its name and the text after `=`; `None` for a word that is no flag.
fn split(word: &str) -> Result<Option<(&str, Option<&str>)>, Stop> {
    let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
        return Ok(None);
    };
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let (name, value) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (rest, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Stop::Usage(format!("not a flag: {word}")));
    }
    let name = match name {
        "h" => "help",
        "V" => "version",
        name => name,
    };
    Ok(Some((name, value)))
}

/// What may follow the flag of this name, and whether `command` has it. `None` for an unknown flag.
fn shape(command: &Command, name: &str) -> Option<(Shape, bool)> {
    if let Some(shape) = shape_in(command, name) {
        return Some((shape, true));
    }
    let elsewhere = LeaderElectionArgs::augment_args(WebhookServerArgs::augment_args(Command::new("other")));
    shape_in(&with_booleans(SharedArgs::augment_args(elsewhere)), name)
        .or_else(|| MEANINGLESS.iter().find(|(flag, _)| *flag == name).map(|(_, shape)| *shape))
        .map(|shape| (shape, false))
}

fn is_shared(name: &str) -> bool {
    shape_in(&SharedArgs::augment_args(Command::new("shared")), name).is_some()
}

fn shape_in(command: &Command, name: &str) -> Option<Shape> {
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name))?;
    Some(if !arg.get_action().takes_values() {
        Shape::Switch
    } else if is_boolean(arg) {
        Shape::Boolean
    } else {
        Shape::Value
    })
}

/// Whether a flag that takes values may have none.
pub(super) fn is_boolean(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.min_values() == 0)
}

/// Checks the value of an ignored flag, if it is a boolean.
fn check_boolean(name: &str, shape: Shape, value: Option<&str>) -> Result<(), Stop> {
    match (shape, value) {
        (Shape::Boolean, Some(value)) => values::boolean(value)
            .map(drop)
            .map_err(|reason| Stop::Usage(format!("invalid value '{value}' for '--{name}': {reason}"))),
        _ => Ok(()),
    }
}

/// Every setting in effect, defaults included, in the order of `--help`.
pub(super) fn effective(command: &Command, matches: &ArgMatches) -> String {
    let mut settings = Vec::new();
    for arg in command.get_arguments() {
        let Some(name) = arg.get_long().filter(|_| arg.get_action().takes_values()) else {
            continue;
        };
        let id = arg.get_id().as_str();
        for value in matches.get_raw(id).into_iter().flatten() {
            settings.push(format!("--{name}={}", value.display()));
        }
    }
    settings.join(" ")
}
