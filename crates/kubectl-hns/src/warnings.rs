//! Prints the warnings of the API server (`Warning` headers) on standard error, as kubectl does.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use http::HeaderMap;
use http::header::WARNING;

use crate::terminal::{Ink, Paint};

/// The warning code of the API server, which marks a persistent warning.
const PERSISTENT: &str = "299";

/// The warnings of one command. Each text is printed once.
#[derive(Debug)]
pub(crate) struct Warnings {
    paint: Paint,
    printed: Mutex<BTreeSet<String>>,
    /// Warnings with this text are left out.
    omitted: OnceLock<&'static str>,
    is_muted: AtomicBool,
}

/// Until it is dropped, no warnings are printed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Muted<'a>(&'a Warnings);

impl Drop for Muted<'_> {
    fn drop(&mut self) {
        self.0.is_muted.store(false, Ordering::Relaxed);
    }
}

impl Warnings {
    /// Creates an empty set, printed in this colour.
    pub(crate) fn new(paint: Paint) -> Self {
        Self { paint, printed: Mutex::default(), omitted: OnceLock::new(), is_muted: AtomicBool::new(false) }
    }

    /// Leaves out the warnings with this text from now on. Only the first call has an effect.
    pub(crate) fn omit(&self, text: &'static str) {
        self.omitted.get_or_init(|| text);
    }

    /// Leaves out all warnings until the result is dropped.
    pub(crate) fn mute(&self) -> Muted<'_> {
        self.is_muted.store(true, Ordering::Relaxed);
        Muted(self)
    }

    /// Prints the warnings of one answer.
    pub(crate) fn report(&self, headers: &HeaderMap) {
        if self.is_muted.load(Ordering::Relaxed) {
            return;
        }
        for line in self.lines(headers) {
            // A failing standard error cannot be reported.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    /// Whether this text is to be printed. After that, it is not printed again.
    pub(crate) fn is_new(&self, text: &str) -> bool {
        // A panic while the lock is held leaves the set valid.
        let mut printed = self.printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.omitted.get().is_none_or(|omitted| !text.contains(omitted)) && printed.insert(text.to_owned())
    }

    fn lines(&self, headers: &HeaderMap) -> Vec<String> {
        let values = headers.get_all(WARNING).iter();
        let texts = values.flat_map(|value| texts(&String::from_utf8_lossy(value.as_bytes())));
        let word = self.paint.ink(Ink::Warning, "Warning:");
        texts.filter(|text| self.is_new(text)).map(|text| format!("{word} {text}")).collect()
    }
}

/// The texts of a header (RFC 7234, section 5.5): one or more of `299 agent "text" ["date"]`, separated by commas.
/// Everything after an invalid warning is omitted.
fn texts(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = value;
    while let Some((code, text, after)) = one(rest) {
        if code == PERSISTENT && !text.is_empty() {
            texts.push(text);
        }
        rest = after;
    }
    texts
}

/// The code and text of the first warning, and the rest of the header.
fn one(value: &str) -> Option<(&str, String, &str)> {
    let value = value.trim_start_matches([' ', '\t', ',']);
    let (code, value) = value.split_once(' ')?;
    let (_agent, value) = value.split_once(' ')?;
    let (text, value) = quoted(value.trim_start())?;
    let value = value.trim_start();
    // The date is not printed.
    let value = quoted(value).map_or(value, |(_, after)| after);
    Some((code, text, value))
}

/// The content of a quoted string, and the rest. Control characters, which could change the terminal, are removed.
fn quoted(value: &str) -> Option<(String, &str)> {
    let value = value.strip_prefix('"')?;
    let mut text = String::new();
    let mut characters = value.char_indices();
    while let Some((at, character)) = characters.next() {
        let literal = match character {
            '"' => return Some((text, &value[at + 1..])),
            '\\' => characters.next()?.1,
            other => other,
        };
        text.extend(Some(literal).filter(|it| !it.is_control()));
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn texts_are_read_as_the_api_server_writes_them() {
        for (header, wanted) in [
            (r#"299 - "plain""#, vec!["plain"]),
            (r#"299 - "a, \"b\" \\ c""#, vec![r#"a, "b" \ c"#]),
            (
                r#"299 - "one", 299 kube "two" "Sat, 01 Jan 2000 00:00:00 GMT",299 - "three""#,
                vec!["one", "two", "three"],
            ),
            ("299 - \"größer\"", vec!["größer"]),
            ("299 - \"\x1b[2Jgone\"", vec!["[2Jgone"]),
            (r#"199 - "passing", 299 - "lasting""#, vec!["lasting"]),
            (r#"299 - "whole", 299 - "without an end"#, vec!["whole"]),
            (r#"299 - """#, vec![]),
            ("299", vec![]),
            ("nonsense", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(texts(header), wanted, "{header}");
        }
    }

    #[test]
    fn each_text_is_printed_once_and_coloured_on_terminals() {
        let headers = |values: &[&str]| {
            let values = values.iter().map(|it| (WARNING, HeaderValue::from_bytes(it.as_bytes()).unwrap()));
            values.collect::<HeaderMap>()
        };
        let warnings = Warnings::new(Paint::NONE);
        assert_eq!(warnings.lines(&headers(&[r#"299 - "a""#, r#"299 - "b""#])), ["Warning: a", "Warning: b"]);
        assert_eq!(warnings.lines(&headers(&[r#"299 - "b", 299 - "ö""#])), ["Warning: ö"]);
        assert_eq!(warnings.lines(&headers(&[])), [""; 0]);
        assert_eq!(["d", "d", "a"].map(|it| warnings.is_new(it)), [true, false, false], "printed elsewhere");
        assert_eq!(warnings.lines(&headers(&[r#"299 - "d""#])), [""; 0]);
        warnings.omit("is known");
        assert_eq!(warnings.lines(&headers(&[r#"299 - "this is known""#, r#"299 - "c""#])), ["Warning: c"]);
        let coloured = Warnings::new(Paint { on: true });
        assert_eq!(coloured.lines(&headers(&[r#"299 - "a""#])), ["\x1b[33mWarning:\x1b[0m a"]);
    }
}
