//! Parses the output of test executables: the numbers of passed and failed tests, the result lines, and the other lines
//! with shortened backtraces.

use std::ops::AddAssign;

/// The prefix of the last line of a test executable.
const RESULT: &str = "test result: ";

/// The prefix of the line with the location of a frame in a backtrace,
const PLACE: &str = "             at ";

/// followed by this prefix if the frame is in the tested package. Other frames are the same for every test.
const OWN: &str = "./";

/// The numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn all(self) -> usize {
        self.passed + self.failed
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// A parsed output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) tally: Tally,
    /// The result lines. Tools that count tests in an output count these lines, so each is printed once only.
    pub(crate) results: Vec<String>,
    /// All other lines, with only the package's own frames of backtraces, so that the reason of a failure is near the
    /// end of the output.
    pub(crate) rest: String,
}

impl Reading {
    pub(crate) fn of(output: &str) -> Self {
        let mut reading = Self::default();
        let mut lines = output.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(result) = line.strip_prefix(RESULT) {
                reading.tally += Tally { passed: count(result, "passed"), failed: count(result, "failed") };
                reading.results.push(line.to_owned());
            } else if is_frame(line) {
                let place = lines.next_if(|next| next.starts_with(PLACE)).unwrap_or_default();
                if place.strip_prefix(PLACE).is_some_and(|it| it.starts_with(OWN)) {
                    reading.rest.extend([line, "\n", place, "\n"]);
                }
            } else {
                reading.rest.extend([line, "\n"]);
            }
        }
        reading
    }
}

/// Whether a line starts a frame of a backtrace: a number, at least four characters wide, and a colon.
fn is_frame(line: &str) -> bool {
    let number = line.split_once(": ").map_or("", |(number, _)| number);
    let digits = number.trim_start();
    number.len() >= 4 && !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
}

/// The number before a word.
fn count(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split_whitespace().map(|it| it.trim_end_matches(';')).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_separated() {
        let first =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        let second =
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s";
        let output = format!("running 12 tests\ntest a ... ok\n\n{first}\n\nfailures:\n  b\n{second}\n");
        let reading = Reading::of(&output);
        assert_eq!(reading.tally, Tally { passed: 13, failed: 2 });
        assert_eq!(reading.tally.all(), 15);
        assert_eq!(reading.results, [first, second]);
        assert_eq!(reading.rest, "running 12 tests\ntest a ... ok\n\n\nfailures:\n  b\n");
        assert_eq!(Reading::of(""), Reading::default());
    }

    #[test]
    fn only_the_packages_own_frames_of_a_backtrace_are_kept() {
        let before = "---- a stdout ----\nError: why\n\nStack backtrace:\n";
        let own = "   2: {async_fn#0}\n             at ./src/wait.rs:28:13\n";
        let test = "  12: a\n             at ./tests/a.rs:3:67\n";
        let foreign =
            "   0: anyhow::msg\n   1: format_err\n             at /registry/anyhow/src/lib.rs:690:13\n";
        let after = "\n4: no frame\n    4 : nor this\nfailures:\n    a\n";
        let output = [before, foreign, own, foreign, test, foreign, after].concat();
        assert_eq!(Reading::of(&output).rest, [before, own, test, after].concat());
    }
}
