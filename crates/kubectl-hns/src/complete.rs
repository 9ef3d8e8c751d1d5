//! Completion of `kubectl hns <TAB>`: kubectl runs the program `kubectl_complete-hns` with the words of the command line, and that
//! program runs `kubectl-hns __complete`. The same for `kubectl accurate`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Command, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;

use crate::cli;
use crate::commands::completion::COMMAND;
use crate::connection::ConnectionArgs;
use crate::program::Program;
use crate::session::Session;
use crate::terminal::Paint;

/// How long a user waits for names of namespaces.
const PATIENCE: Duration = Duration::from_secs(3);

/// The directives of kubectl's protocol: the shell may complete names of files, or may not.
const FILES: &str = ":0";
const NO_FILES: &str = ":4";

/// The answer for kubectl, if `words` ask for a completion: one candidate per line, with its description, and a directive.
pub fn answer(words: &[OsString]) -> Option<String> {
    let (program, words) = words.split_first()?;
    let (_, words) = words.split_first().filter(|(first, _)| *first == COMMAND)?;
    let words: Vec<OsString> = std::iter::once(program).chain(words).cloned().collect();
    let connection = connection(&words);
    let candidates = candidates(words, move || namespaces(&connection));
    let directive = if candidates.is_empty() { FILES } else { NO_FILES };
    Some(candidates.iter().map(line).chain([format!("{directive}\n")]).collect())
}

fn candidates(
    words: Vec<OsString>,
    namespaces: impl Fn() -> Vec<String> + Clone + Send + Sync + 'static,
) -> Vec<CompletionCandidate> {
    let last = words.len().saturating_sub(1);
    let command = cli::command(Program::of(words.first().map(OsString::as_os_str)));
    let mut found = complete(&mut with_names(command, &namespaces), words, last, None).unwrap_or_default();
    found.retain(|it| !it.is_hide_set());
    found
}

fn line(candidate: &CompletionCandidate) -> String {
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.lines().next().map(|it| format!("\t{it}")).unwrap_or_default();
    format!("{}{help}\n", candidate.get_value().display())
}

/// The command line with the names of namespaces as values of the arguments that are namespaces.
fn with_names(
    command: Command,
    namespaces: &(impl Fn() -> Vec<String> + Clone + Send + Sync + 'static),
) -> Command {
    // The child of `create` does not exist yet.
    let exists = command.get_name() == "delete";
    let is_namespace = |arg: &clap::Arg| {
        arg.get_value_names().is_some_and(|names| {
            names.iter().any(|it| {
                ["NAMESPACE", "PARENT", "TEMPLATE"].contains(&it.as_str()) || (exists && it == "CHILD")
            })
        })
    };
    let all = || {
        let namespaces = namespaces.clone();
        ArgValueCandidates::new(move || namespaces().into_iter().map(CompletionCandidate::new).collect())
    };
    command
        .mut_args(|arg| if is_namespace(&arg) { arg.add(all()) } else { arg })
        .mut_subcommands(|it| with_names(it, namespaces))
}

/// The connection flags among the words.
fn connection(words: &[OsString]) -> ConnectionArgs {
    let command = cli::command(Program::of(words.first().map(OsString::as_os_str)));
    let matches = command.ignore_errors(true).try_get_matches_from(words);
    matches.ok().and_then(|it| ConnectionArgs::from_arg_matches(&it).ok()).unwrap_or_default()
}

/// The names of all namespaces; of that of the request for a user who may not list them; none if the API server does not answer.
fn namespaces(connection: &ConnectionArgs) -> Vec<String> {
    let read = async {
        let session = Session::open(connection, Paint::NONE).await.ok()?;
        match session.list_metadata(&session.all::<Namespace>(), &ListParams::default()).await {
            Ok(all) => Some(all.into_iter().filter_map(|it| it.metadata.name).collect()),
            Err(problem) if problem.is_forbidden() => Some(vec![session.namespace]),
            Err(_) => None,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.map(|it| it.block_on(async { tokio::time::timeout(PATIENCE, read).await }));
    found.ok().and_then(Result::ok).flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_with_commands_flags_and_namespaces() {
        let names = || vec!["acme".to_owned(), "acme-dev".to_owned(), "other".to_owned()];
        for (line, wanted) in [
            (&["tr"][..], &["tree"][..]),
            (&["tree", "ac"], &["acme", "acme-dev"]),
            (&["tree", "acme", "o"], &["other"]),
            (&["move", "x", "--to", "acme-"], &["acme-dev"]),
            (&["create", "x", "-n", "oth"], &["other"]),
            (&["plan", "set", "acme-d"], &["acme-dev"]),
            (&["tree", "--dep"], &["--depth"]),
            (&["tree", "-o", "sv"], &["svg"]),
            (&["create", "ac"], &[]),
            (&["delete", "acme-"], &["acme-dev"]),
            (&["sub", "mo"], &["move"]),
            (&["sub", "move", "x", "ot"], &["other"]),
            (&["sub", "create", "ot"], &[]),
        ] {
            let program = if line[0] == "sub" { "kubectl-accurate" } else { "kubectl-hns" };
            let words = [program].iter().chain(line).map(OsString::from).collect();
            let found: Vec<String> =
                candidates(words, names).iter().map(|it| it.get_value().display().to_string()).collect();
            assert_eq!(found, wanted, "{line:?}");
        }
    }

    #[test]
    fn connection_flags_are_found_before_the_unfinished_word() {
        let words = ["kubectl-hns", "tree", "--context", "x", "-n", "y", ""].map(OsString::from);
        let connection = connection(&words);
        assert_eq!((connection.context.as_deref(), connection.namespace.as_deref()), (Some("x"), Some("y")));
        assert_eq!(answer(&["kubectl-hns", "tree"].map(OsString::from)), None);
    }
}
