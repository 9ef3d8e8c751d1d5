//! The processor time and memory of processes, from the kernel (`/proc`). Times are totals since the start.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// Processor seconds by process; `others` is all other usage of this machine.
pub(crate) type Cpu = BTreeMap<&'static str, f64>;

pub(crate) const OTHERS: &str = "others";
/// This program, including the plain client.
pub(crate) const CLIENT: &str = "client";

/// The unit of `/proc`, on all supported architectures.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// Memory of a process in KiB.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Memory {
    /// The current resident size.
    pub(crate) rss_kib: u64,
    /// The largest resident size since the last [`forget_peak`].
    pub(crate) peak_kib: u64,
}

impl Memory {
    /// The current resident size in MiB.
    pub(crate) fn rss(self) -> f64 {
        mebibytes(self.rss_kib)
    }

    /// The later size, and the largest one of both.
    pub(crate) fn combine(self, later: Self) -> Self {
        Self { peak_kib: self.peak_kib.max(later.peak_kib), ..later }
    }

    /// The largest resident size in MiB.
    pub(crate) fn peak(self) -> f64 {
        mebibytes(self.peak_kib)
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory of a process")]
fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// The total seconds of these processes and this one. A process that has ended counts zero.
pub(crate) fn cpu(processes: &[(&'static str, i32)]) -> anyhow::Result<Cpu> {
    let mut used = Cpu::new();
    for (name, pid) in processes {
        *used.entry(name).or_default() += of_process(&pid.to_string()).unwrap_or_default();
    }
    used.insert(CLIENT, of_process("self")?);
    let ours: f64 = used.values().sum();
    used.insert(OTHERS, of_machine()? - ours);
    Ok(used)
}

/// The usage between two readings.
pub(crate) fn difference(before: &Cpu, after: &Cpu) -> Cpu {
    let spent = |(name, used): (&&'static str, &f64)| {
        // A process that was started in between had used nothing before.
        (*name, (used - before.get(name).copied().unwrap_or_default()).max(0.0))
    };
    after.iter().map(spent).collect()
}

pub(crate) fn memory(pid: i32) -> anyhow::Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("reading a process's memory")?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (rss_kib, peak_kib) = field("VmRSS:").zip(field("VmHWM:")).context("a process without memory")?;
    Ok(Memory { rss_kib, peak_kib })
}

/// Resets the largest size to the current one.
pub(crate) fn forget_peak(pid: i32) -> anyhow::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("resetting a process's peak")
}

/// The processor time of the calling thread.
pub(crate) fn of_this_thread() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
    Ok(Duration::from_nanos(nanoseconds.context("/proc/thread-self/schedstat")?))
}

/// The processor ticks of a process, in user mode and in the kernel.
pub(crate) fn ticks(pid: &str) -> anyhow::Result<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and may contain any character.
    let (_, fields) = text.rsplit_once(") ").context("a process without a name")?;
    let mut times = fields.split(' ').skip(11).map_while(|field| field.parse().ok());
    times.next().zip(times.next()).context("a process without times")
}

fn of_process(pid: &str) -> anyhow::Result<f64> {
    ticks(pid).map(|(user, system)| seconds(user + system))
}

fn of_machine() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat")?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen; the rest is counted in user.
    let busy = fields.iter().take(8).sum::<u64>() - fields[3] - fields[4];
    Ok(seconds(busy))
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a hundredth of a second, for years")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_SECOND
}
