//! The names of the binary. The name that it is called by decides which commands it has.

use std::ffi::OsStr;
use std::path::Path;

/// A name of the binary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Program {
    /// `kubectl-hns`, or any other name.
    #[default]
    Hns,
    /// `kubectl-accurate`.
    Accurate,
}

/// What the name of a plugin's program for completions begins with.
const COMPLETION: &str = "kubectl_complete-";

fn stem(called: Option<&OsStr>) -> Option<&str> {
    Path::new(called?).file_stem()?.to_str()
}

impl Program {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hns, Self::Accurate];

    /// The one that was called, from the first word of the command line.
    pub fn of(called: Option<&OsStr>) -> Self {
        let name = stem(called).map(|it| it.replace(COMPLETION, "kubectl-"));
        if name.is_some_and(|it| it == Self::Accurate.binary()) { Self::Accurate } else { Self::Hns }
    }

    /// Whether kubectl calls a link to the binary for completions. The words are then no command to run.
    pub(crate) fn completes(called: &OsStr) -> bool {
        stem(Some(called)).is_some_and(|it| it.starts_with(COMPLETION))
    }

    /// The name of the file.
    pub fn binary(self) -> &'static str {
        match self {
            Self::Hns => "kubectl-hns",
            Self::Accurate => "kubectl-accurate",
        }
    }

    /// A text with advice, with the commands of this name.
    pub(crate) fn advice(self, text: &str) -> String {
        match self {
            Self::Hns => text.to_owned(),
            Self::Accurate => text
                .replace("`kubectl hns doctor`", "`kubectl accurate doctor`")
                .replace("`kubectl hns tree -A`", "`kubectl get namespaces`"),
        }
    }

    /// How users call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Hns => "kubectl hns",
            Self::Accurate => "kubectl accurate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_decides() {
        for (called, program) in [
            ("kubectl-accurate", Program::Accurate),
            ("/usr/bin/kubectl-accurate", Program::Accurate),
            ("./kubectl-accurate.exe", Program::Accurate),
            ("kubectl_complete-accurate", Program::Accurate),
            ("kubectl_complete-hns", Program::Hns),
            ("kubectl-hns", Program::Hns),
            ("kubectl-accurate/kubectl-hns", Program::Hns),
            ("", Program::Hns),
        ] {
            assert_eq!(Program::of(Some(OsStr::new(called))), program, "{called}");
        }
        assert_eq!(Program::of(None), Program::Hns);
    }
}
