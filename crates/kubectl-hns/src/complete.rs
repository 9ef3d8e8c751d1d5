//! Completion of `kubectl hns <TAB>`: kubectl runs the program `kubectl_complete-hns` with the words of the command line, and that
//! program runs `kubectl-hns __complete`. The same for `kubectl accurate`.

use std::ffi::OsString;
use std::fmt::Debug;
use std::time::Duration;

use clap::{Arg, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use hns_api::accurate::labels::{TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::{HierarchicalResourceQuota, SubnamespaceAnchor};
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::discover;
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use crate::cli;
use crate::commands::completion::COMMAND;
use crate::connection::{self, ConnectionArgs};
use crate::failure::Problem;
use crate::program::Program;
use crate::session::Session;
use crate::terminal::Paint;

/// How long a user waits for names of namespaces.
const PATIENCE: Duration = Duration::from_secs(3);

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Namespace,
    /// A context, a cluster or a user of the kubeconfig.
    Named(Entry),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A subnamespace of the namespace of the request.
    Subnamespace,
    /// A hierarchical quota in the namespace of the request.
    Quota,
    /// A resource with objects in namespaces.
    Resource,
    /// The same, before the name of an object.
    Object,
}

/// What a kubeconfig has by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Context,
    Cluster,
    User,
}

/// The types of a namespace in Accurate's API.
const TYPES: &[&str] = &[TYPE_ROOT, TYPE_TEMPLATE, "none"];

/// The directives of kubectl's protocol: the shell may complete names of files, or may not; or it may not, and adds no space.
const FILES: &str = ":0";
const NO_FILES: &str = ":4";
const NO_FILES_NO_SPACE: &str = ":6";

/// The answer for kubectl, if `words` ask for a completion: one candidate per line, with its description, and a directive.
pub fn answer(words: &[OsString]) -> Option<String> {
    let (program, words) = words.split_first()?;
    let asked = words.split_first().filter(|(first, _)| *first == COMMAND).map(|(_, words)| words);
    let words = asked.or(Program::completes(program).then_some(words))?;
    let words: Vec<OsString> = std::iter::once(program).chain(words).cloned().collect();
    let connection = connection(&words);
    let may_be_file = is_file(&cli::command(Program::of(Some(program))), &words);
    let candidates = candidates(words, move |wanted| names(&connection, wanted));
    let directive = match &*candidates {
        [] if may_be_file => FILES,
        [first, ..] if first.get_value().to_string_lossy().ends_with('/') => NO_FILES_NO_SPACE,
        _ => NO_FILES,
    };
    Some(candidates.iter().map(line).chain([format!("{directive}\n")]).collect())
}

fn candidates(
    words: Vec<OsString>,
    names: impl Fn(Wanted) -> Vec<String> + Clone + Send + Sync + 'static,
) -> Vec<CompletionCandidate> {
    let last = words.len().saturating_sub(1);
    let command = cli::command(Program::of(words.first().map(OsString::as_os_str)));
    let mut found = complete(&mut with_names(command, &names), words, last, None).unwrap_or_default();
    found.retain(|it| !it.is_hide_set());
    found
}

/// Whether the last word is the value of a flag for a file.
fn is_file(command: &Command, words: &[OsString]) -> bool {
    let [.., before, last] = words else { return false };
    let [before, last] = [before, last].map(|word| word.to_string_lossy().into_owned());
    let flag = last.split_once('=').map_or(before, |(flag, _)| flag.to_owned());
    has_file_flag(command, &flag)
}

fn has_file_flag(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &Arg| {
        let long = arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| *flag == format!("-{short}"));
        let names = arg.get_value_names().unwrap_or_default();
        (long || short) && names.iter().any(|name| ["FILE", "DIRECTORY"].contains(&name.as_str()))
    };
    command.get_arguments().any(is_it) || command.get_subcommands().any(|it| has_file_flag(it, flag))
}

fn line(candidate: &CompletionCandidate) -> String {
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.lines().next().map(|it| format!("\t{it}")).unwrap_or_default();
    format!("{}{help}\n", candidate.get_value().display())
}

/// The command line with names as values of the arguments that name something.
fn with_names(
    command: Command,
    names: &(impl Fn(Wanted) -> Vec<String> + Clone + Send + Sync + 'static),
) -> Command {
    // The child of `create` does not exist yet.
    let (exists, is_quota) = (command.get_name() == "delete", command.get_name() == "hrq");
    let wanted = |arg: &Arg| {
        match arg.get_id().as_str() {
            "context" => return Some(Wanted::Named(Entry::Context)),
            "cluster" => return Some(Wanted::Named(Entry::Cluster)),
            "user" => return Some(Wanted::Named(Entry::User)),
            _ => {}
        }
        arg.get_value_names()?.iter().find_map(|it| match it.as_str() {
            "NAMESPACE" | "PARENT" | "TEMPLATE" => Some(Wanted::Namespace),
            "TYPE" => Some(Wanted::Word(TYPES)),
            "CHILD" if exists => Some(Wanted::Subnamespace),
            "NAME" if is_quota => Some(Wanted::Quota),
            "RESOURCE" => Some(Wanted::Resource),
            "KIND/NAME" => Some(Wanted::Object),
            _ => None,
        })
    };
    let all = |wanted| {
        let names = names.clone();
        ArgValueCandidates::new(move || names(wanted).into_iter().map(CompletionCandidate::new).collect())
    };
    command
        .mut_args(|arg| match wanted(&arg) {
            Some(wanted) => arg.add(all(wanted)),
            None => arg,
        })
        .mut_subcommands(|it| with_names(it, names))
}

/// The connection flags among the words.
fn connection(words: &[OsString]) -> ConnectionArgs {
    let command = cli::command(Program::of(words.first().map(OsString::as_os_str)));
    let matches = command.ignore_errors(true).try_get_matches_from(words);
    matches.ok().and_then(|it| ConnectionArgs::from_arg_matches(&it).ok()).unwrap_or_default()
}

/// The names of what is wanted; of namespaces, that of the request for a user who may not list them. None if the API server does not
/// answer.
fn names(connection: &ConnectionArgs, wanted: Wanted) -> Vec<String> {
    match wanted {
        Wanted::Word(words) => return words.iter().map(|&it| it.to_owned()).collect(),
        Wanted::Named(entry) => return entries(connection, entry),
        _ => {}
    }
    let read = async {
        let session = Session::open(connection, Paint::NONE).await.ok()?;
        let namespace = &session.namespace;
        match wanted {
            Wanted::Subnamespace => {
                listed(&session, &session.within::<SubnamespaceAnchor>(namespace)).await.ok()
            }
            Wanted::Quota => {
                listed(&session, &session.within::<HierarchicalResourceQuota>(namespace)).await.ok()
            }
            Wanted::Resource => Some(resources(&session).await?.collect()),
            Wanted::Object => Some(resources(&session).await?.map(|it| format!("{it}/")).collect()),
            _ => match listed(&session, &session.all::<Namespace>()).await {
                Err(problem) if problem.is_forbidden() => Some(vec![session.namespace]),
                other => other.ok(),
            },
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.map(|it| it.block_on(async { tokio::time::timeout(PATIENCE, read).await }));
    found.ok().and_then(Result::ok).flatten().unwrap_or_default()
}

async fn listed<K>(session: &Session, api: &Api<K>) -> Result<Vec<String>, Problem>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    PartialObjectMeta<K>: Clone,
{
    let all = session.list_metadata(api, &ListParams::default()).await?;
    Ok(all.into_iter().filter_map(|it| it.metadata.name).collect())
}

/// The resources with objects in namespaces, with their groups.
async fn resources(session: &Session) -> Option<impl Iterator<Item = String>> {
    let kinds = discover(&session.client).await.ok()?.kinds.into_iter();
    Some(kinds.filter(|it| it.namespaced).map(|it| it.kind.group_resource()))
}

/// The names of a kind of entry in the kubeconfig.
fn entries(connection: &ConnectionArgs, entry: Entry) -> Vec<String> {
    let Ok(Some(kubeconfig)) = connection::read(connection) else { return Vec::new() };
    match entry {
        Entry::Context => kubeconfig.contexts.into_iter().map(|it| it.name).collect(),
        Entry::Cluster => kubeconfig.clusters.into_iter().map(|it| it.name).collect(),
        Entry::User => kubeconfig.auth_infos.into_iter().map(|it| it.name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_with_commands_flags_and_namespaces() {
        let names = |wanted| match wanted {
            Wanted::Namespace => ["acme", "acme-dev", "other"].map(str::to_owned).to_vec(),
            Wanted::Subnamespace => vec!["acme-dev".to_owned()],
            Wanted::Quota => vec!["gold".to_owned()],
            Wanted::Resource => vec!["secrets".to_owned()],
            Wanted::Object => vec!["secrets/".to_owned()],
            Wanted::Named(entry) => vec![format!("{entry:?}")],
            Wanted::Word(words) => words.iter().map(|&it| it.to_owned()).collect(),
        };
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
            (&["delete", "ac"], &["acme-dev"]),
            (&["delete", "-n", "acme", "ac"], &["acme-dev"]),
            (&["plan", "delete", "ac"], &["acme", "acme-dev"]),
            (&["sub", "mo"], &["move"]),
            (&["sub", "move", "x", "ot"], &["other"]),
            (&["sub", "create", "ot"], &[]),
            (&["ns", "set-type", "acme", "t"], &["template"]),
            (&["hrq", "g"], &["gold"]),
            (&["hrq", "gold", "-n", "ot"], &["other"]),
            (&["explain", "s"], &["secrets/"]),
            (&["explain", "secrets/"], &["secrets/"]),
            (&["tree", "--show-copies", "s"], &["secrets/"]),
            (&["config", "set-resource", "s"], &["secrets"]),
            (&["plan", "config", "delete-type", "--resource", "s"], &["secrets"]),
            (&["tree", "--context", ""], &["Context"]),
            (&["tree", "--user", ""], &["User"]),
        ] {
            let program = if ["sub", "ns"].contains(&line[0]) { "kubectl-accurate" } else { "kubectl-hns" };
            let words = [program].iter().chain(line).map(OsString::from).collect();
            let found: Vec<String> =
                candidates(words, names).iter().map(|it| it.get_value().display().to_string()).collect();
            assert_eq!(found, wanted, "{line:?}");
        }
    }

    #[test]
    fn files_are_completed_for_flags_that_name_files_only() {
        for (line, wanted) in [
            ("create -f ", true),
            ("tree --kubeconfig ", true),
            ("tree --kubeconfig=x", true),
            ("tree --context ", false),
            ("explain ", false),
            ("tree acme", false),
        ] {
            let words: Vec<OsString> =
                ["kubectl-hns"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            assert_eq!(is_file(&cli::command(Program::Hns), &words), wanted, "{line}");
        }
    }

    #[test]
    fn connection_flags_are_found_before_the_unfinished_word() {
        let words = ["kubectl-hns", "tree", "--context", "x", "-n", "y", ""].map(OsString::from);
        let connection = connection(&words);
        assert_eq!((connection.context.as_deref(), connection.namespace()), (Some("x"), Some("y")));
        assert_eq!(answer(&["kubectl-hns", "tree"].map(OsString::from)), None);
        // A link to the binary runs no command.
        assert!(answer(&["kubectl_complete-hns", "config", "delete-ty"].map(OsString::from)).is_some());
    }
}
