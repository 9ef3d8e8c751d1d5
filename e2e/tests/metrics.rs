//! What an operator sees: metrics, alerts and the dashboard by a real Prometheus that scrapes both binaries, and their logs.
//!
//! Where Prometheus is neither installed nor can be fetched, that part is left out and said to be, unless `HNS_NODE=require` is
//! set.

#[cfg(test)]
mod metrics {
    mod fixture;
    mod logs;
    mod prometheus;
    mod scrape;
}
