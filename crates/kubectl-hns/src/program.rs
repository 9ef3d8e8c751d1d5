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

impl Program {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hns, Self::Accurate];

    /// The one that was called, from the first word of the command line.
    pub fn of(called: Option<&OsStr>) -> Self {
        let name = called.and_then(|it| Path::new(it).file_stem());
        if name.is_some_and(|it| it == Self::Accurate.binary()) { Self::Accurate } else { Self::Hns }
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
            ("kubectl-hns", Program::Hns),
            ("kubectl-accurate/kubectl-hns", Program::Hns),
            ("", Program::Hns),
        ] {
            assert_eq!(Program::of(Some(OsStr::new(called))), program, "{called}");
        }
        assert_eq!(Program::of(None), Program::Hns);
    }
}
