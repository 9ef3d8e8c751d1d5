//! The tips and the usage in errors of the command line.

use std::ffi::OsStr;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

const SHOWS_THE_PLAN: &str = "without --yes shows the effects, and asks before it makes the change";

/// Replaces clap's tips: keeps similar words only if they are close, and names the command that does what was meant.
pub(super) fn with_tips(mut error: Error, all: Command) -> Error {
    // Neither names nor numbers of this command line begin with a dash, so "to pass '-x' as a value" is no help.
    error.remove(ContextKind::Suggested);
    for (invalid, suggested) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        keep_close(&mut error, invalid, suggested);
    }
    with_usage(&mut error, all);
    if let Some(tip) = tip(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Whether the word is the flag for the help.
pub(super) fn is_help(word: &OsStr) -> bool {
    ["-h", "--help"].iter().any(|flag| word == *flag)
}

/// Whether the error is that this flag follows the command `help`.
pub(super) fn asks_for_help(error: &Error) -> bool {
    matches!(error.get(ContextKind::InvalidSubcommand), Some(ContextValue::String(word)) if is_help(word.as_ref()))
}

fn keep_close(error: &mut Error, invalid: ContextKind, suggested: ContextKind) {
    let Some(ContextValue::String(typed)) = error.get(invalid) else { return };
    let is_close = |word: &String| {
        strsim::levenshtein(&typed.to_lowercase(), &word.to_lowercase()) * 3 <= typed.chars().count()
    };
    let kept = match error.get(suggested) {
        Some(ContextValue::Strings(words)) => words.iter().filter(|it| is_close(it)).cloned().collect(),
        Some(ContextValue::String(word)) if is_close(word) => vec![word.clone()],
        Some(ContextValue::String(_)) => Vec::new(),
        _ => return,
    };
    match &kept[..] {
        [] => error.remove(suggested),
        [one] => error.insert(suggested, ContextValue::String(one.clone())),
        _ => error.insert(suggested, ContextValue::Strings(kept)),
    };
}

fn tip(error: &Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let command = words(error).join(" ");
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let has_own = command == "plan" && matches!(name, "move" | "convert");
            has_own.then(|| format!("`kubectl hns {name}` {SHOWS_THE_PLAN}"))
        }
        ErrorKind::UnknownArgument if text(ContextKind::InvalidArg)?.starts_with("--dry-run") => {
            match &*command {
                "move" | "convert" => Some(format!("`kubectl hns {command}` {SHOWS_THE_PLAN}")),
                "create" | "set" | "config set-resource" | "config delete-type" => {
                    Some(format!("`kubectl hns plan {command}` shows the effects without making the change"))
                }
                _ => None,
            }
        }
        ErrorKind::InvalidValue
            if text(ContextKind::InvalidArg)?.starts_with("--v ")
                && text(ContextKind::InvalidValue)?.is_empty() =>
        {
            Some("-v needs a value, the level of detail: `-v 6`".to_owned())
        }
        _ => None,
    }
}

/// The words of the command in the error's usage.
fn words(error: &Error) -> Vec<String> {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let words = usage.split_whitespace().skip_while(|word| *word != "kubectl").skip(2);
    words.take_while(|word| !word.starts_with(['[', '<', '-'])).map(str::to_owned).collect()
}

/// The usage of the command as in its help. clap's usage in an error shows flags that were given as required.
fn with_usage(error: &mut Error, mut all: Command) {
    all.build();
    let words = words(error);
    let found = words.iter().try_fold(&all, |command, word| command.find_subcommand(word));
    if let Some(found) = found.filter(|_| error.get(ContextKind::Usage).is_some()) {
        let usage = found.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
}
