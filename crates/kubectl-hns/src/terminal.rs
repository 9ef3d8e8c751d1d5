//! The output of commands: results on standard output, everything else on standard error, colours only on terminals.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::Failure;
use crate::failure::Done;

/// Standard output and standard error of this process.
#[derive(Debug)]
pub struct Terminal {
    /// The colours of standard output.
    pub(crate) paint: Paint,
    /// The colours of standard error.
    pub(crate) stderr: Paint,
    /// Whether standard error is a terminal, so that a progress bar is useful.
    pub(crate) watched: bool,
    /// Why a part of the results could not be written to standard output.
    unwritten: OnceLock<String>,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

/// The meaning of a piece of text, which gives its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Less important text, such as the mark of a subnamespace.
    Faint,
    /// An error.
    Bad,
    /// A success.
    Good,
    /// A warning.
    Warning,
}

impl Paint {
    /// No colours.
    pub(crate) const NONE: Self = Self { on: false };

    /// The text in this colour.
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

/// The text without control characters, except line breaks, tabs and the colours of [`Paint`]. Texts of the cluster can contain
/// sequences that act on the terminal.
fn harmless(text: &str) -> Cow<'_, str> {
    const COLOURS: [&str; 5] = ["[0m", "[2m", "[31m", "[32m", "[33m"];
    let is_harmless = |at: usize, it: char| match it {
        '\n' | '\t' => true,
        '\x1b' => COLOURS.iter().any(|colour| text[at + 1..].starts_with(colour)),
        _ => !it.is_control(),
    };
    if text.char_indices().all(|(at, it)| is_harmless(at, it)) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    for (at, it) in text.char_indices() {
        if is_harmless(at, it) { clean.push(it) } else { clean.extend(it.escape_debug()) }
    }
    clean.into()
}

/// Whether to use colours, from the flags, the environment and the output. <https://no-color.org>: any value but the
/// empty one.
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
        let (stdout, stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            paint: paint(stdout),
            stderr: paint(stderr),
            watched: stderr && term.as_deref() != Some("dumb"),
            unwritten: OnceLock::new(),
        }
    }

    /// A terminal without colors, for tests.
    /// The failure of a command that needs confirmation, and cannot ask for it.
    pub(crate) fn unconfirmed() -> Failure {
        Failure::new("Error: this needs confirmation, and stdin is not a terminal; nothing was changed")
    }

    #[cfg(test)]
    pub(crate) fn quiet() -> Self {
        Self { paint: Paint::NONE, stderr: Paint::NONE, watched: false, unwritten: OnceLock::new() }
    }

    /// Prints `text`, which has its own line breaks.
    pub fn print(&self, text: &str) {
        self.print_to(&mut io::stdout().lock(), text);
    }

    fn print_to(&self, stream: &mut impl Write, text: &str) {
        let written = stream.write_all(harmless(text).as_bytes()).and_then(|()| stream.flush());
        // A closed pipe is not an error.
        if let Some(error) = written.err().filter(|it| it.kind() != ErrorKind::BrokenPipe) {
            self.unwritten.get_or_init(|| error.to_string());
        }
    }

    /// Prints the failure, if there is one, and returns the exit code. What could not be written is a failure, too.
    pub fn end(&self, result: Done) -> ExitCode {
        let written = match self.unwritten.get() {
            Some(why) => Err(Failure::new(format!("Error: the output cannot be written: {why}"))),
            None => Ok(()),
        };
        match result.and(written) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                self.fail(&failure);
                ExitCode::FAILURE
            }
        }
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Prints a note about the output on standard error.
    #[expect(clippy::unused_self, reason = "commands print through the terminal they are given")]
    pub(crate) fn note(&self, text: &str) {
        // A failing standard error cannot be reported.
        let _ = writeln!(io::stderr().lock(), "Note: {}", harmless(text));
    }

    /// Prints a warning on standard error, as warnings of the API server are printed.
    pub(crate) fn warn(&self, text: &str) {
        let warning = self.stderr.ink(Ink::Warning, "Warning:");
        let _ = writeln!(io::stderr().lock(), "{warning} {}", harmless(text));
    }

    /// Whether the user can be asked.
    #[expect(clippy::unused_self, reason = "commands ask through the terminal they are given")]
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Asks a yes-or-no question; the default is no.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if !self.can_ask() {
            return Err(Self::unconfirmed().with_hint("Use --yes to continue without confirmation."));
        }
        let mut stream = io::stderr().lock();
        let _ = write!(stream, "{} [y/N] ", harmless(question)).and_then(|()| stream.flush());
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Prints the failure and its hint.
    pub fn fail(&self, failure: &Failure) {
        let mut stream = io::stderr().lock();
        let _ = writeln!(stream, "{}", harmless(&failure.text));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(stream, "{}", harmless(hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_and_can_be_disabled() {
        assert!(wants_colour(false, None, Some("xterm"), true));
        assert!(wants_colour(false, Some(""), None, true), "an empty NO_COLOR asks for nothing");
        assert!(!wants_colour(false, Some("1"), Some("xterm"), true));
        assert!(!wants_colour(true, None, Some("xterm"), true));
        assert!(!wants_colour(false, None, Some("dumb"), true));
        assert!(!wants_colour(false, None, Some("xterm"), false), "a file");
    }

    #[test]
    fn output_that_is_lost_is_a_failure_unless_nobody_reads_it() {
        struct Broken(ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (kind, code) in
            [(ErrorKind::StorageFull, ExitCode::FAILURE), (ErrorKind::BrokenPipe, ExitCode::SUCCESS)]
        {
            let terminal = Terminal::quiet();
            terminal.print_to(&mut Broken(kind), "x\n");
            assert_eq!(terminal.end(Ok(())), code, "{kind}");
        }
    }

    #[test]
    fn no_text_acts_on_the_terminal() {
        let painted = Paint { on: true }.ink(Ink::Bad, "a\tb\n├── ü");
        assert_eq!(harmless(&painted), painted);
        assert_eq!(harmless("a\x1b[2J\r\u{9b}1mb\x1b"), "a\\u{1b}[2J\\r\\u{9b}1mb\\u{1b}");
    }

    #[test]
    fn paint_leaves_text_alone_when_off() {
        assert_eq!(Paint::NONE.ink(Ink::Bad, "x"), "x");
        assert_eq!(Paint { on: true }.ink(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint { on: true }.ink(Ink::Bad, ""), "");
    }
}
