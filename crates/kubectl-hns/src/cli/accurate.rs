//! The command line of `kubectl accurate`: Accurate's verbs.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::{Cli, Common};
use crate::commands::accurate::{describe, explain, labels, list, plan, relocation, sub};
use crate::commands::{completion, doctor};
use crate::connection::NAMESPACE;
use crate::program::Program;

/// Show and change the hierarchy of namespaces of Accurate.
///
/// A root namespace has sub-namespaces, and a template has instances; objects are copied from each to the next ones. The commands
/// show both trees, create, delete and move sub-namespaces, and set types and templates.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-accurate",
    bin_name = "kubectl accurate",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    disable_version_flag = true,
    max_term_width = 110
)]
struct AccurateCli {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draw the trees of root namespaces, or the tree below a namespace.
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show and set what a namespace is.
    #[command(visible_alias = "ns", subcommand)]
    Namespace(Namespace),
    /// Show and set templates.
    #[command(subcommand)]
    Template(Template),
    /// Show, create, delete and move sub-namespaces.
    #[command(subcommand)]
    Sub(Sub),
    Explain(explain::Arguments),
    Plan(plan::Arguments),
    Doctor(doctor::Arguments),
    Completion(completion::Arguments),
    /// List the flags that all commands have.
    Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Namespace {
    Describe(describe::Arguments),
    SetType(labels::SetType),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Template {
    /// Draw the trees of templates and their instances, or the tree below a template.
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    Set(labels::SetTemplate),
    Unset(labels::UnsetTemplate),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sub {
    /// Draw the trees of root namespaces, or the tree below a namespace.
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    Create(sub::Create),
    Delete(sub::Delete),
    Move(relocation::Move),
    Graft(relocation::Graft),
    Cut(relocation::Cut),
}

/// The definition. What it shares with `kubectl hns` gets this name.
pub(super) fn command() -> clap::Command {
    let renamed = |about: &str| about.replace("kubectl hns", "kubectl accurate").replace("-hns", "-accurate");
    let whole = |about: &str| {
        let about = about.replace("the tree around it", "the tree of HNC's API around it");
        format!(
            "{about} Accurate's trees are checked if you may list namespaces, hierarchyconfigurations and subnamespaces in the whole \
             cluster."
        )
    };
    AccurateCli::command().mut_subcommands(|it| {
        let about = it.get_long_about().map(ToString::to_string).unwrap_or_default();
        match it.get_name() {
            "completion" => it.long_about(renamed(&about)),
            "doctor" => it.long_about(whole(&about)),
            _ => it,
        }
    })
}

/// The commands that read the namespace of `-n` show it. The others accept it.
pub(super) fn with_namespace(command: clap::Command) -> clap::Command {
    let found = command.get_arguments().find(|arg| arg.get_id() == NAMESPACE).cloned();
    let Some(namespace) = found else { return command };
    command.mut_subcommands(|it| match it.get_name() {
        "explain" | "doctor" => it.arg(namespace.clone()),
        _ => it,
    })
}

/// The parsed command line.
pub(super) fn parsed(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let AccurateCli { common, command } = AccurateCli::from_arg_matches(matches)?;
    let command = command.map(|command| match command {
        Command::Completion(arguments) => super::Command::Completion(arguments),
        Command::Options => super::Command::Options,
        Command::Doctor(arguments) => super::Command::Doctor(arguments),
        verb => super::Command::Accurate(verb),
    });
    Ok(Cli { common, program: Program::Accurate, command })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{NoCommand, parse};
    use super::*;

    fn parsed(line: &str) -> Result<Cli, NoCommand> {
        parse(["/x/kubectl-accurate"].into_iter().chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn every_command_has_the_flags_of_kubectl_and_the_aliases_of_accurate() {
        for line in [
            "list",
            "ls a",
            "sub list",
            "sub ls a",
            "template list",
            "template ls a",
            "ns describe a --accurate-namespace x --accurate-deployment y",
            "namespace describe a",
            "ns set-type a root",
            "template set a b",
            "template unset a",
            "sub create a b --labels k=v,l=w --annotations k=v",
            "sub delete a",
            "sub move a b --leave-original",
            "sub graft a b",
            "sub cut a",
            "explain secret/a",
            "plan sub create a b --labels k=v",
            "plan sub delete a",
            "plan sub move a b --leave-original",
            "plan sub graft a b",
            "plan sub cut a -o json",
            "plan template set a b",
            "plan template unset a",
            "plan ns set-type a root",
            "plan namespace set-type a none",
        ] {
            for line in [format!("{line} --context x -n y --as z"), format!("--as z --context x -n y {line}")]
            {
                let cli = parsed(&line).unwrap();
                let connection = &cli.common.connection;
                let given =
                    [connection.context.as_deref(), connection.namespace(), connection.as_user.as_deref()];
                assert_eq!(given, [Some("x"), Some("y"), Some("z")], "{line}");
                assert!(matches!(cli.command, Some(super::super::Command::Accurate(_))), "{line}");
            }
        }
    }

    #[test]
    fn help_and_errors_name_this_program() {
        let said = |line: &str| parsed(line).unwrap_err().0.to_string();
        assert_eq!(said("-v"), format!("kubectl-accurate version {}\n", env!("CARGO_PKG_VERSION")));
        assert_eq!(said("--version"), said("-v"));
        for line in [
            "--help",
            "sub move --help",
            "completion --help",
            "options --help",
            "sub create a",
            "sub movee a b",
        ] {
            let text = said(line);
            assert!(text.contains("kubectl accurate") && !text.contains("kubectl hns"), "{line}: {text}");
            assert!(!text.contains("-hns") && !text.contains('`'), "{line}: {text}");
        }
        assert!(
            said("sub create a").contains("Usage: kubectl accurate sub create [OPTIONS] <NAME> <PARENT>")
        );
        assert!(said("sub movee a b").contains("'move'"));
        for (line, is_shown) in [
            ("explain --help", true),
            ("doctor --help", true),
            ("options --help", true),
            ("list --help", false),
        ] {
            assert_eq!(said(line).contains("--namespace <NAMESPACE>"), is_shown, "{line}");
        }
    }
}
