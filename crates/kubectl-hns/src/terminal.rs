//! Where text goes: output to standard output, everything else to standard error, colour only where people look. Words are
//! chosen elsewhere.

use std::io::{IsTerminal, Write};

use crate::Failure;

/// The two streams of this process.
#[derive(Debug)]
pub struct Terminal {
    /// For what is printed on standard output.
    pub(crate) paint: Paint,
    /// For what is printed on standard error.
    pub(crate) stderr: Paint,
    /// Whether somebody watches standard error, so that a progress bar makes sense.
    pub(crate) watched: bool,
}

/// Colour, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

/// What a piece of text is, as far as colour is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Not the point: the mark of a subnamespace.
    Faint,
    /// Something is wrong.
    Bad,
    /// All is well.
    Good,
    /// Worth a look.
    Warning,
}

impl Paint {
    /// No colour.
    pub(crate) const NONE: Self = Self { on: false };

    /// The text in that colour.
    pub(crate) fn ink(self, ink: Ink, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Faint => "2",
            Ink::Bad => "31",
            Ink::Good => "32",
            Ink::Warning => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether to colour, by what was asked for and where the text goes. <https://no-color.org>: any value but the empty one.
fn wants_colour(flag: bool, no_color: Option<&str>, term: Option<&str>, terminal: bool) -> bool {
    !flag && no_color.is_none_or(str::is_empty) && term != Some("dumb") && terminal
}

impl Terminal {
    /// The streams of this process; `no_color` is the flag.
    pub fn of_process(no_color: bool) -> Self {
        let variable = |name| std::env::var(name).ok();
        let (setting, term) = (variable("NO_COLOR"), variable("TERM"));
        let paint =
            |terminal| Paint { on: wants_colour(no_color, setting.as_deref(), term.as_deref(), terminal) };
        let (stdout, stderr) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self {
            paint: paint(stdout),
            stderr: paint(stderr),
            watched: stderr && term.as_deref() != Some("dumb"),
        }
    }

    /// Prints `text`, which brings its own line breaks.
    #[expect(clippy::unused_self, reason = "whoever prints was given the place to print to")]
    pub(crate) fn print(&self, text: &str) {
        // A closed pipe is the reader's decision.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Says something about the output that is not part of it.
    #[expect(clippy::unused_self, reason = "whoever prints was given the place to print to")]
    pub(crate) fn note(&self, text: &str) {
        // Nobody is left to tell.
        let _ = writeln!(std::io::stderr().lock(), "Note: {text}");
    }

    /// Whether there is a terminal to ask at.
    #[expect(clippy::unused_self, reason = "the caller was given the place to ask at")]
    pub(crate) fn can_ask(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Asks a question whose answer is no unless somebody says yes.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if !self.can_ask() {
            return Err(Failure::new(
                "Error: this needs your consent, and stdin is not a terminal; nothing was changed",
            )
            .with_hint("Use --yes to go on without a question."));
        }
        let mut stream = std::io::stderr().lock();
        let _ = write!(stream, "{question} [y/N] ").and_then(|()| stream.flush());
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Says why the command failed, and what to do.
    pub fn fail(&self, failure: &Failure) {
        let mut stream = std::io::stderr().lock();
        let _ = writeln!(stream, "{}", failure.text);
        if let Some(hint) = &failure.hint {
            let _ = writeln!(stream, "{hint}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_can_be_refused() {
        assert!(wants_colour(false, None, Some("xterm"), true));
        assert!(wants_colour(false, Some(""), None, true), "an empty NO_COLOR asks for nothing");
        assert!(!wants_colour(false, Some("1"), Some("xterm"), true));
        assert!(!wants_colour(true, None, Some("xterm"), true));
        assert!(!wants_colour(false, None, Some("dumb"), true));
        assert!(!wants_colour(false, None, Some("xterm"), false), "a file");
    }

    #[test]
    fn paint_leaves_text_alone_when_off() {
        assert_eq!(Paint::NONE.ink(Ink::Bad, "x"), "x");
        assert_eq!(Paint { on: true }.ink(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint { on: true }.ink(Ink::Bad, ""), "");
    }
}
