//! Where lines of the log go: to standard error, at once, or together with others of the same piece of work.
//!
//! A line by itself is a call of the kernel. Whoever does many things in a row that may each say something holds their lines until all
//! are done. Nothing is held for longer than a thread works without a break.

use std::cell::RefCell;
use std::io::{self, Write};
use std::marker::PhantomData;

/// Held lines of so many bytes go out, whatever is still to come.
const AT_MOST: usize = 64 * 1024;

thread_local! {
    /// The lines that this thread holds, if it holds any.
    static HELD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// While this is alive, the lines that its thread logs are held.
#[must_use = "lines are held for as long as it is alive"]
pub(crate) struct Hold {
    /// Whether the lines go out with this one, and not with one that was there before.
    is_first: bool,
    /// What it is about is this thread's.
    not_send: PhantomData<*const ()>,
}

/// Holds the lines that this thread logs until what is given back is dropped.
pub(crate) fn hold() -> Hold {
    let is_first = HELD.with_borrow_mut(|held| {
        let is_first = held.is_none();
        held.get_or_insert_default();
        is_first
    });
    Hold { is_first, not_send: PhantomData }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_first {
            let held = HELD.take().unwrap_or_default();
            if !held.is_empty() {
                // There is nobody left who could be told.
                let _ = out(&held);
            }
        }
    }
}

/// Writes lines, each whole.
pub(super) struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        HELD.with_borrow_mut(|held| match held {
            None => out(line),
            Some(held) => {
                held.extend_from_slice(line);
                if held.len() > AT_MOST { out(&std::mem::take(held)) } else { Ok(()) }
            }
        })?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// To standard error, which keeps nothing back. Whole, whoever else writes there.
#[cfg(not(test))]
fn out(lines: &[u8]) -> io::Result<()> {
    io::stderr().write_all(lines)
}

#[cfg(test)]
use tests::out;

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static WRITTEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for what may fail")]
    pub(super) fn out(lines: &[u8]) -> io::Result<()> {
        WRITTEN.with_borrow_mut(|written| written.push(String::from_utf8_lossy(lines).into_owned()));
        Ok(())
    }

    fn log(line: &str) {
        Lines.write_all(line.as_bytes()).unwrap();
    }

    /// What was written since the last time, by calls of the kernel.
    fn written() -> Vec<String> {
        WRITTEN.take()
    }

    #[test]
    fn a_line_goes_out_at_once_unless_lines_are_held() {
        log("one\n");
        log("two\n");
        assert_eq!(written(), ["one\n", "two\n"]);
        let held = hold();
        log("three\n");
        log("four\n");
        assert!(written().is_empty());
        drop(held);
        assert_eq!(written(), ["three\nfour\n"]);
        log("five\n");
        assert_eq!(written(), ["five\n"]);
        drop(hold());
        assert!(written().is_empty(), "nothing was said");
    }

    #[test]
    fn what_is_held_within_goes_out_with_the_outermost() {
        let outer = hold();
        log("one\n");
        drop(hold());
        log("two\n");
        assert!(written().is_empty());
        drop(outer);
        assert_eq!(written(), ["one\ntwo\n"]);
    }

    #[test]
    fn nobody_holds_the_lines_of_another_thread_or_any_number_of_them() {
        let held = hold();
        let other = std::thread::spawn(|| {
            log("other\n");
            written()
        });
        assert_eq!(other.join().unwrap(), ["other\n"]);
        let line = format!("{}\n", "x".repeat(1000));
        for _ in 0..100 {
            log(&line);
        }
        let early = written();
        drop(held);
        let late = written();
        println!("{} and {} pieces", early.len(), late.len());
        assert_eq!((early.len(), late.len()), (1, 1));
        assert_eq!(early.concat() + &late.concat(), line.repeat(100));
    }

    #[test]
    fn a_panic_holds_nothing_back() {
        let panicked = std::panic::catch_unwind(|| {
            let _held = hold();
            log("the last words\n");
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(written(), ["the last words\n"]);
    }
}
