//! Runs suites concurrently, keeps the output of each one separate, and prints a summary.
//!
//! When this program ends in any way, so do they.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use hns_e2e::{Exit, Process, ProcessSpec};

use super::suites::Suite;
use super::tally::{Reading, Tally};

/// The interval of checks whether a suite has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The interval of progress messages.
const REMINDER: Duration = Duration::from_secs(60);

/// The timeout of a suite: several times what the longest one needs.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The time that a stopped suite has to end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs all suites in this order, `width` at a time. Returns whether all passed; a failing suite does not stop the
/// others.
pub(crate) fn run(suites: Vec<Suite>, width: usize, logs: &Path) -> anyhow::Result<bool> {
    fs::create_dir_all(logs).with_context(|| format!("creating {}", logs.display()))?;
    eprintln!("== {} suites, {width} at a time; their output: {}", suites.len(), logs.display());
    let began = Instant::now();
    let mut waiting = VecDeque::from(suites);
    let mut running: Vec<Running> = Vec::new();
    let mut ended = Vec::new();
    let mut told = Instant::now();
    while !(waiting.is_empty() && running.is_empty()) {
        let mut changed = false;
        while let Some(suite) = next(&mut waiting, &running, width) {
            changed = true;
            let name = suite.name.clone();
            match Running::start(suite, logs) {
                Ok(started) => running.push(started),
                Err(error) => ended.push(Ended::not_started(name, &error)),
            }
        }
        if changed || told.elapsed() > REMINDER {
            eprintln!("{}", progress(&running, waiting.len(), &ended));
            told = Instant::now();
        }
        match running.iter().position(Running::is_over) {
            Some(place) => {
                let suite = running.swap_remove(place).end();
                suite.show()?;
                ended.push(suite);
            }
            None => thread::sleep(LOOK),
        }
    }
    conclude(&ended, began.elapsed())
}

/// The next suite, if it may start beside the running ones.
fn next(waiting: &mut VecDeque<Suite>, running: &[Running], width: usize) -> Option<Suite> {
    let alone = waiting.front()?.alone || running.iter().any(|it| it.suite.alone);
    let room = if alone { 1 } else { width };
    if running.len() < room { waiting.pop_front() } else { None }
}

/// A running suite.
struct Running {
    suite: Suite,
    process: Process,
    began: Instant,
}

impl Running {
    fn start(suite: Suite, logs: &Path) -> anyhow::Result<Self> {
        let log = logs.join(format!("{}.log", suite.name));
        // Clears the output of an earlier run.
        fs::write(&log, "").with_context(|| format!("writing {}", log.display()))?;
        let process = Process::spawn(ProcessSpec {
            name: suite.name.clone(),
            program: suite.program.clone(),
            args: suite.args.clone(),
            env: suite.env.clone(),
            directory: suite.directory.clone(),
            log,
            grace: GRACE,
        })?;
        Ok(Self { suite, process, began: Instant::now() })
    }

    fn is_over(&self) -> bool {
        self.process.exit().is_some() || self.began.elapsed() > LIMIT
    }

    fn end(self) -> Ended {
        let exit = self.process.exit();
        let took = self.began.elapsed();
        self.process.stop();
        let reading = Reading::of(&self.process.log());
        let verdict = match exit {
            None => Err(format!("stopped after {} s", took.as_secs())),
            Some(Exit::Code(0)) if reading.tally.all() == 0 => Err("no test was run".to_owned()),
            Some(Exit::Code(0)) => Ok(()),
            Some(exit) => Err(exit.to_string()),
        };
        Ended { name: self.suite.name, verdict, took, reading }
    }
}

/// The result of a suite.
struct Ended {
    name: String,
    /// The reason of the failure.
    verdict: Result<(), String>,
    took: Duration,
    reading: Reading,
}

impl Ended {
    fn not_started(name: String, error: &anyhow::Error) -> Self {
        let verdict = Err(format!("not started: {error:#}"));
        Self { name, verdict, took: Duration::ZERO, reading: Reading::default() }
    }

    /// The summary line.
    fn line(&self) -> String {
        let Tally { passed, failed } = self.reading.tally;
        let verdict = match &self.verdict {
            Ok(()) => "ok".to_owned(),
            Err(why) => format!("FAILED ({why}), failed tests: {failed}"),
        };
        format!("{}: {passed} tests passed in {:.1} s: {verdict}", self.name, self.took.as_secs_f32())
    }

    /// Prints the output.
    fn show(&self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        writeln!(output, "\n== {}\n{}", self.line(), self.reading.rest.trim_matches('\n'))?;
        output.flush()
    }
}

fn progress(running: &[Running], waiting: usize, ended: &[Ended]) -> String {
    let running: Vec<String> =
        running.iter().map(|it| format!("{} ({} s)", it.suite.name, it.began.elapsed().as_secs())).collect();
    let failed = ended.iter().filter(|it| it.verdict.is_err()).count();
    format!("== running {}; {waiting} wait, {} ended, {failed} failed", running.join(", "), ended.len())
}

/// Prints the output of failed suites again, and then a line for each suite with its results.
fn conclude(ended: &[Ended], took: Duration) -> anyhow::Result<bool> {
    let failed: Vec<&Ended> = ended.iter().filter(|it| it.verdict.is_err()).collect();
    for suite in &failed {
        suite.show()?;
    }
    let mut all = Tally::default();
    let mut output = io::stdout().lock();
    writeln!(output)?;
    for suite in ended {
        all += suite.reading.tally;
        writeln!(output, "== {}", suite.line())?;
        for line in &suite.reading.results {
            writeln!(output, "{line}")?;
        }
    }
    writeln!(
        output,
        "== suites: {}, failed: {}; tests: {}, failed: {}; {} s",
        ended.len(),
        failed.len(),
        all.all(),
        all.failed,
        took.as_secs()
    )?;
    output.flush()?;
    Ok(failed.is_empty())
}
