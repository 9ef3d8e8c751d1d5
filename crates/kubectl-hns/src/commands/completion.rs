//! `completion`: prints scripts that complete the command line.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::program::Program;
use crate::{Failure, Terminal, cli};

/// The name of the command that completes the command line, for the program that kubectl runs.
pub(crate) const COMMAND: &str = "__complete";

/// Print the completion script for a shell.
///
/// bash: source <(kubectl-hns completion bash). zsh: kubectl-hns completion zsh > "${fpath[1]}/_kubectl-hns". fish:
/// kubectl-hns completion fish | source. PowerShell: kubectl-hns completion powershell | Out-String | Invoke-Expression.
///
/// kubectl completes "kubectl hns" itself, with names of namespaces, if the program `kubectl_complete-hns` is in the path:
/// kubectl hns completion kubectl > ~/bin/kubectl_complete-hns; chmod +x ~/bin/kubectl_complete-hns.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Powershell,
    /// The program with which kubectl completes its plugin.
    Kubectl,
}

fn script(shell: ShellName, program: Program) -> String {
    let binary = program.binary();
    let shell = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
        ShellName::Powershell => Shell::PowerShell,
        ShellName::Kubectl => return format!("#!/bin/sh\nexec {binary} {COMMAND} \"$@\"\n"),
    };
    let mut text = Vec::new();
    let mut command = cli::command(program).bin_name(binary);
    clap_complete::generate(shell, &mut command, binary, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[expect(clippy::unnecessary_wraps, reason = "all commands have this signature")]
pub(crate) fn run(arguments: &Arguments, program: Program, terminal: &Terminal) -> Result<(), Failure> {
    terminal.print(&script(arguments.shell, program));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_all_commands() {
        for shell in ShellName::value_variants().iter().filter(|it| !matches!(it, ShellName::Kubectl)) {
            let script = script(*shell, Program::Hns);
            for word in ["tree", "describe", "set-resource", "--allowCascadingDeletion", "--kubeconfig"] {
                let word = if matches!(shell, ShellName::Fish) { word.trim_start_matches('-') } else { word };
                assert!(script.contains(word), "{shell:?} lacks {word}");
            }
        }
    }
}
