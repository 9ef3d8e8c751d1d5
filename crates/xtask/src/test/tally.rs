//! What the output of test executables says: how many tests passed and failed, and the lines that say so.

use std::ops::AddAssign;

/// The line that a test executable ends with begins like this.
const RESULT: &str = "test result: ";

/// How many tests there were.
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

/// An output taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) tally: Tally,
    /// The lines that tell results. Whoever counts tests in an output counts these, so each is printed once only.
    pub(crate) results: Vec<String>,
    /// All other lines.
    pub(crate) rest: String,
}

impl Reading {
    pub(crate) fn of(output: &str) -> Self {
        let mut reading = Self::default();
        for line in output.lines() {
            match line.strip_prefix(RESULT) {
                Some(result) => {
                    reading.tally +=
                        Tally { passed: count(result, "passed"), failed: count(result, "failed") };
                    reading.results.push(line.to_owned());
                }
                None => reading.rest.extend([line, "\n"]),
            }
        }
        reading
    }
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
    fn results_are_counted_and_kept_apart() {
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
}
