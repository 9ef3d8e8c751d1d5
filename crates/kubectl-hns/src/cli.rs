//! The command line: the commands and their common flags. The binary has two names, each with its own commands.

pub(crate) mod accurate;
mod tips;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use hns_runtime::args::{with_booleans, without_code_marks};

use crate::commands::{
    completion, config, convert, create, delete, describe, doctor, explain, get, hrq, move_, plan, set, tree,
    version,
};
use crate::connection::{CONNECTION, ConnectionArgs, NAMESPACE};
use crate::program::Program;
use crate::terminal::Terminal;

/// Show and change the hierarchy of namespaces.
///
/// Namespaces have parents, and policy objects are copied from a namespace to all namespaces below it. The commands
/// show trees, create and delete subnamespaces, set parents, and check the installation.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-hns",
    bin_name = "kubectl hns",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    disable_version_flag = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,

    /// The name that it was called by.
    #[arg(skip)]
    pub(crate) program: Program,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The flags that all commands of both names have.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// Disable colours. Colours are also disabled by the variable `NO_COLOR`, and if the output is not a terminal.
    #[arg(long, global = true)]
    no_color: bool,

    /// Print the version. Without a command, -v without a value does the same.
    #[arg(short = 'V', long, action = clap::ArgAction::Version, help_heading = None::<&str>)]
    version: Option<bool>,

    /// Level of detail: from 6, each request to the API server is printed on standard error.
    #[arg(short = 'v', long = "v", global = true, value_name = "LEVEL", value_parser = level)]
    pub(crate) verbosity: Option<u8>,
}

fn level(text: &str) -> Result<u8, &'static str> {
    text.parse().map_err(|_| "must be a number, the level of detail")
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tree(tree::Arguments),
    Describe(describe::Arguments),
    Explain(explain::Arguments),
    Create(create::Arguments),
    Delete(delete::Arguments),
    Set(set::Arguments),
    Move(move_::Arguments),
    Convert(convert::Arguments),
    Plan(plan::Arguments),
    Config(config::Arguments),
    Hrq(hrq::Arguments),
    #[command(hide = true)]
    Get(get::Arguments),
    Doctor(doctor::Arguments),
    Completion(completion::Arguments),
    /// List the flags that all commands have.
    Options,
    Version(version::Arguments),
    /// A command of `kubectl accurate`.
    #[command(skip)]
    Accurate(accurate::Command),
}

impl Cli {
    /// Whether `--no-color` is set.
    pub fn no_color(&self) -> bool {
        self.common.no_color
    }
}

/// Where the help names the flags that all commands have.
fn where_common_flags_are(program: Program) -> String {
    let words = program.words();
    format!("Use \"{words} options\" for a list of the flags that all commands have.")
}

/// The definition of the command line of this name. Flags that all commands have are in the help of `options` only, except `-n` where it
/// has an effect.
pub fn command(program: Program) -> clap::Command {
    let is_common = |arg: &Arg| {
        let is_shown = program == Program::Hns && arg.get_id() == NAMESPACE;
        arg.get_help_heading() == Some(CONNECTION) && !is_shown
    };
    let plain = match program {
        Program::Hns => Cli::command(),
        Program::Accurate => accurate::command(),
    };
    let plain = with_booleans(without_code_marks(plain));
    let common = plain.get_arguments().filter(|arg| is_common(arg)).cloned();
    let common: Vec<Arg> = common.map(|arg| arg.global(false).help_heading(None::<&str>)).collect();
    let note = where_common_flags_are(program);
    let plain = match program {
        Program::Hns => plain,
        Program::Accurate => accurate::with_namespace(plain),
    };
    plain
        .mut_args(|arg| if is_common(&arg) { arg.hide(true) } else { arg })
        .mut_subcommands(|it| if it.get_name() == "options" { it } else { with_note(it, &note) })
        .mut_subcommand("options", |it| it.args(common))
        .after_help(&note)
}

/// The command and all below it, with this note at the end of the help.
fn with_note(command: clap::Command, note: &str) -> clap::Command {
    command.after_help(note.to_owned()).mut_subcommands(|it| with_note(it, note))
}

/// Help, the version, or an error of the command line, instead of a command.
#[derive(Debug)]
pub struct NoCommand(clap::Error);

impl NoCommand {
    /// Prints it: help and version on standard output with exit code 0, an error on standard error with exit code 1.
    pub fn print(&self) -> ExitCode {
        let terminal = Terminal::of_process(false);
        let text = self.0.render().to_string();
        if self.is_requested() {
            terminal.print(&text);
            return terminal.end(Ok(()));
        }
        let text = text.strip_prefix("error:").map_or_else(|| text.clone(), |rest| format!("Error:{rest}"));
        terminal.end(Err(crate::Failure::new(text.trim_end())))
    }

    fn is_requested(&self) -> bool {
        use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
        matches!(self.0.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion)
    }
}

/// Parses a command line.
///
/// # Errors
/// Help or the version was requested, or the line is invalid.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, NoCommand> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let program = Program::of(words.first().map(OsString::as_os_str));
    let all = command(program);
    // In HNC's plugin, -v without a value is the flag for the version, but not after a subcommand.
    if let [before @ .., last] = &mut *words
        && *last == *"-v"
        && !before.iter().any(|word| all.find_subcommand(word).is_some())
    {
        *last = "--version".into();
    }
    let matches = match all.clone().try_get_matches_from(&words) {
        // `help --help`: clap takes the flag for a command to show the help of.
        Err(error) if tips::asks_for_help(&error) => {
            words.retain(|word| !tips::is_help(word));
            all.clone().try_get_matches_from(words)
        }
        matches => matches,
    };
    let matches = matches.map_err(|error| NoCommand(tips::with_tips(error, all)))?;
    let parsed = match program {
        Program::Hns => Cli::from_arg_matches(&matches),
        Program::Accurate => accurate::parsed(&matches),
    };
    parsed.map_err(NoCommand)
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn parsed(line: &str) -> Result<Cli, NoCommand> {
        parse(["kubectl-hns"].into_iter().chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn the_definition_is_valid() {
        for program in Program::ALL {
            command(program).debug_assert();
        }
    }

    #[test]
    fn connection_flags_may_stand_before_and_after_the_command() {
        for line in [
            "-n x tree a",
            "tree a -n x",
            "set a -n x",
            "plan set a -n x",
            "tree -n=x a",
            "--namespace x tree a",
            "tree a --namespace=x",
        ] {
            assert_eq!(parsed(line).unwrap().common.connection.namespace(), Some("x"), "{line}");
        }
        let all = "--as u --as-group g --as-group h --as-uid 1 --cache-dir d --certificate-authority c \
            --client-certificate c --client-key k --cluster c --context c --disable-compression \
            --insecure-skip-tls-verify --kubeconfig k -n x --request-timeout 3 -s s --tls-server-name t --token t --user u";
        for line in [format!("{all} version"), format!("version {all}")] {
            let connection = parsed(&line).unwrap().common.connection;
            assert_eq!(connection.as_group, ["g", "h"]);
            assert_eq!(connection.server.as_deref(), Some("s"));
        }
        parsed("--insecure-skip-tls-verify=true version").unwrap();
    }

    #[test]
    fn all_booleans_take_values() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                let is_boolean = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
                assert!(!is_boolean, "{} {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        for program in Program::ALL {
            check(&command(program));
        }
        for line in [
            "delete x -y=false",
            "tree -Aw=0",
            "delete x -ya",
            "delete x -y --wait=t",
            "set x -r=1",
            "--no-color=F tree",
        ] {
            parsed(line).unwrap();
        }
        for line in ["delete x -y=no", "tree -A=", "delete x -y false"] {
            parsed(line).unwrap_err();
        }
    }

    #[test]
    fn flags_of_all_commands_are_in_the_help_of_options() {
        let help = |line: &str| parsed(line).unwrap_err().0.to_string();
        for line in ["--help", "tree --help", "plan --help", "plan set --help"] {
            let text = help(line);
            assert!(!text.contains("--kubeconfig") && text.contains("--namespace"), "{line}: {text}");
        }
        for line in ["tree -h", "plan -h", "plan config set-resource --help", "config delete-type -h"] {
            let text = help(line);
            assert!(text.ends_with(&format!("{}\n", where_common_flags_are(Program::Hns))), "{line}: {text}");
        }
        for flag in ["--kubeconfig", "--as-group", "--no-color", "--v <LEVEL>"] {
            assert!(help("options --help").contains(flag), "{flag}");
        }
        assert_eq!(parsed("options --context x").unwrap().common.connection.context.as_deref(), Some("x"));
    }

    #[test]
    fn v_with_a_value_is_the_level_of_detail() {
        for line in
            ["-v=6 tree a", "tree a -v=6", "--v=6 tree a", "-v 6 tree a", "tree -v 6 a", "--v 6 tree a"]
        {
            assert_eq!(parsed(line).unwrap().common.verbosity, Some(6), "{line}");
        }
    }

    #[test]
    fn errors_and_requested_help_differ() {
        for (line, asked_for) in [
            ("--help", true),
            ("-h", true),
            ("help tree", true),
            ("help --help", true),
            ("help tree -h", true),
            ("plan help --help", true),
            ("tree -h", true),
            ("--version", true),
            ("-v", true),
            ("-n x -v", true),
            ("tree -v", false),
            ("config", true),
            ("nonsense", false),
            ("create", false),
            ("create a b", false),
            ("get", false),
            ("tree --nonsense", false),
        ] {
            assert_eq!(parsed(line).unwrap_err().is_requested(), asked_for, "{line}");
        }
    }

    #[test]
    fn a_name_of_a_namespace_is_checked_wherever_it_is_given() {
        for line in [
            "describe ns/acme",
            "set ns/acme --root",
            "move ns/acme --to x",
            "move x --to ns/acme",
            "convert ns/acme --to sub",
            "delete ns/acme",
            "tree ns/acme",
            "plan delete ns/acme",
            "tree x -n ns/acme",
        ] {
            let text = parsed(line).unwrap_err().0.to_string();
            let wanted = "\"ns/acme\" is not a valid name of a namespace; leave out \"ns/\"";
            assert!(text.contains(wanted), "{line}: {text}");
        }
    }

    #[test]
    fn a_name_is_not_empty() {
        for words in [
            &["describe", ""][..],
            &["move", "", "--to", "x"],
            &["move", "x", "--to", ""],
            &["set", ""],
            &["plan", "set", ""],
            &["plan", "delete", ""],
            &["convert", "", "--to", "sub"],
            &["delete", ""],
            &["create", ""],
            &["plan", "create", ""],
            &["tree", ""],
            &["hrq", ""],
            &["config", "set-resource", "", "--mode", "Propagate"],
            &["plan", "config", "set-resource", "", "--mode", "Propagate"],
            &["config", "delete-type", "--resource", ""],
        ] {
            let line = ["kubectl-hns"].iter().chain(words).map(OsString::from);
            let text = parse(line).unwrap_err().0.to_string();
            let what = match words[0] {
                "hrq" => "quota",
                _ if words.contains(&"config") => "resource",
                _ => "namespace",
            };
            assert!(text.contains(&format!("the name of the {what} is empty")), "{words:?}: {text}");
        }
    }

    #[test]
    fn the_version_flags_equal_the_command() {
        for flag in ["--version", "-V", "-v"] {
            assert_eq!(parsed(flag).unwrap_err().0.to_string(), version::text(), "{flag}");
        }
    }

    #[test]
    fn what_is_not_available_is_not_in_the_list() {
        let text = parsed("--help").unwrap_err().0.to_string();
        assert!(text.contains("\n  hrq ") && !text.contains("\n  get "), "{text}");
        assert!(parsed("get pods").is_ok());
    }

    #[test]
    fn help_is_no_markdown() {
        for line in ["create --help", "config set-resource --help", "completion --help", "options --help"] {
            let text = parsed(line).unwrap_err().0.to_string();
            assert!(!text.contains('`'), "{line}: {text}");
        }
    }

    #[test]
    fn errors_have_the_usage_of_the_help_and_tips_that_help() {
        let plan = "tip: `kubectl hns plan create` shows the effects without making the change";
        let moves = "tip: `kubectl hns move` without --yes shows the effects";
        for (line, said, silent) in [
            ("create --wait -n x a b", "kubectl hns create [OPTIONS] -f FILE", "--wait[="),
            ("set -a", "Usage: kubectl hns set [OPTIONS] <NAMESPACE>", "--allow"),
            ("create x -n t --dry-run=server", plan, "as a value"),
            ("move x --to y --dry-run", moves, "as a value"),
            ("plan move x --to y", moves, "similar"),
            ("treee", "similar subcommand exists: 'tree'", "create"),
            ("completion tcsh", "possible values", "similar"),
            ("tree x -o xml", "possible values", "similar"),
            ("tree x --depth -1", "'--depth <LEVELS>': must be 0 or more", "as a value"),
            ("tree x --depth -99999999999999999999", "must be 0 or more", "number"),
            ("tree x --depth 99999999999999999999", "'--depth <LEVELS>': is too large", "number"),
            ("tree x --depth x", "'--depth <LEVELS>': must be a number", "digit"),
            ("move x --to y --timeout -1", "'--timeout <TIME>': may not be negative", "unexpected"),
            ("move x --to y --timeout -5s", "'--timeout <TIME>': may not be negative", "unexpected"),
            ("move x --to y --timeout --wait", "'--timeout <TIME>': must be a number of seconds", "negative"),
            ("config set-resource cm --mode Allowpropagte", "'AllowPropagate'", "as a value"),
            (
                "plan config set-resource cm --mode foo",
                "[possible values: Propagate, AllowPropagate",
                "similar",
            ),
            ("plan config set-resource cm --mode=", "[possible values: Propagate, AllowPropagate", "similar"),
            ("tree x -v foo", "must be a number, the level of detail", "digit"),
            ("tree -v", "tip: -v needs a value, the level of detail: `-v 6`", "--version"),
            ("set x --root=false", "leave --root out to keep the parent", "BOOL"),
            ("plan set x --root=0", "leave --root out to keep the parent", "BOOL"),
            ("set x -a=false", "use --forbidCascadingDeletion", "BOOL"),
            ("plan set x -f=false", "use --allowCascadingDeletion", "BOOL"),
        ] {
            let text = parsed(line).unwrap_err().0.to_string();
            assert!(text.contains(said) && !text.contains(silent), "{line}: {text}");
        }
    }
}
