//! What a parser costs, by the length of what it parses.
//!
//! Counts the processor time of this thread, so that it does not matter what else runs on the machine. Work that takes the square
//! of the length takes 64 times as long for eight times as many parts.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// So much more the eightfold may cost: eight times as much, sorting, and memory that the caches of the processor do not hold any
/// more, of which other programs take a part.
const MOST_TIMES: f64 = 32.0;

/// What costs less than this is not measured any better by taking more of it.
const NOTHING: Duration = Duration::from_micros(500);

/// A share of the text that the largest annotations, or a large object, can hold.
const PARTS: usize = 4_000;

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("it never goes back")
}

/// The least that several runs took.
pub(crate) fn cost(work: &mut dyn FnMut()) -> Duration {
    let once = |work: &mut dyn FnMut()| {
        let before = processor_time();
        work();
        processor_time().saturating_sub(before)
    };
    (0..3).map(|_| once(work)).min().unwrap_or_default()
}

/// Whether the work on `8 * PARTS` parts costs about eight times that on `PARTS`.
pub(crate) fn check<T>(what: &str, prepare: impl Fn(usize) -> T, work: impl Fn(&T)) -> Result<(), String> {
    let of = |parts| {
        let input = prepare(parts);
        cost(&mut || work(&input))
    };
    compare(what, of(PARTS), of(8 * PARTS))
}

/// Whether the cost of eight times as many is about eight times that of `one`.
pub(crate) fn compare(what: &str, one: Duration, eight: Duration) -> Result<(), String> {
    if eight < one.max(NOTHING).mul_f64(MOST_TIMES) {
        return Ok(());
    }
    Err(format!("{what}: {one:.1?}, {eight:.1?} for eight times as many"))
}

/// The same, for tests without cases.
pub(crate) fn linear<T>(what: &str, prepare: impl Fn(usize) -> T, work: impl Fn(&T)) {
    check(what, prepare, work).unwrap();
}

/// Parts of which each is another one: `#` stands for its number.
pub(crate) fn repeated(part: &str, times: usize) -> String {
    (0..times).map(|at| part.replace('#', &format!("{at:06}"))).collect()
}
