//! The metrics of this process, with the names that every Prometheus client uses.
//!
//! They are read at each scrape. A value that the operating system does not provide is left out.

use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus::{
    Counter, Gauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use rustix::time::{ClockId, clock_gettime};

/// CPU time, memory, open files and start of this process.
#[derive(Debug)]
pub(super) struct Process {
    cpu: Mutex<Counter>,
    memory: Gauge,
    files: Gauge,
    start: Gauge,
}

impl Process {
    pub(super) fn new() -> prometheus::Result<Self> {
        let start =
            Gauge::new("process_start_time_seconds", "When the process started, in seconds since 1970.")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        start.set(now.map_or(0.0, |since| since.as_secs_f64()));
        Ok(Self {
            cpu: Mutex::new(Counter::new(
                "process_cpu_seconds_total",
                "CPU time spent, user and system, in seconds.",
            )?),
            memory: Gauge::new("process_resident_memory_bytes", "Memory in RAM, in bytes.")?,
            files: Gauge::new("process_open_fds", "Open file descriptors.")?,
            start,
        })
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        // The counter is left out: its description needs the lock, and registering does not need the description.
        [&self.memory, &self.files, &self.start].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.start.collect();
        {
            // Two concurrent scrapes must not add the same time twice.
            let cpu = self.cpu.lock();
            cpu.inc_by((cpu_seconds() - cpu.get()).max(0.0));
            families.extend(cpu.collect());
        }
        if let Some(bytes) = resident_bytes() {
            self.memory.set(bytes);
            families.extend(self.memory.collect());
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            let count = u32::try_from(entries.count()).unwrap_or(u32::MAX);
            self.files.set(count.into());
            families.extend(self.files.collect());
        }
        families
    }
}

fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "precise for 285 years")]
    let seconds = spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9;
    seconds
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
