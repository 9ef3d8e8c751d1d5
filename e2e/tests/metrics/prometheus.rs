//! A Prometheus that scrapes given ports every second and loads the alerts, and what it answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hns_e2e::http::get;
use hns_e2e::{Process, ProcessSpec, eventually, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

const START: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    port: u16,
    process: Process,
    _directory: TempDir,
}

/// The chart's file of this name.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/hns/files").join(name)
}

impl Running {
    /// Starts it and waits until it answers. Each target is a job's name and a port.
    pub(crate) async fn start(server: &Path, targets: &[(&str, u16)]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("hns-prometheus-").tempdir()?;
        let jobs = targets.iter().map(|(name, port)| {
            json!({ "job_name": name, "static_configs": [{ "targets": [format!("127.0.0.1:{port}")] }] })
        });
        let config = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": [file("alerts.yaml").canonicalize()?],
            "scrape_configs": jobs.collect::<Vec<_>>(),
        });
        // JSON is YAML.
        fs::write(directory.path().join("prometheus.yml"), config.to_string())?;
        for _ in 0..3 {
            let (port, process) = spawn(server, directory.path())?;
            if is_ready(port, &process).await? {
                return Ok(Self { port, process, _directory: directory });
            }
            // Another process may have taken the port meanwhile.
        }
        bail!("Prometheus does not start: {}", fs::read_to_string(directory.path().join("log"))?)
    }

    /// What a query gives at this moment.
    pub(crate) async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(query))).await;
        let answer = answer.with_context(|| format!("the query {query}"))?;
        Ok(answer["result"].as_array().cloned().unwrap_or_default())
    }

    /// The rules with their health and state.
    pub(crate) async fn rules(&self) -> Result<Vec<Value>> {
        let answer = self.ask("/api/v1/rules").await?;
        let groups = answer["groups"].as_array().cloned().unwrap_or_default();
        Ok(groups.iter().flat_map(|it| it["rules"].as_array().cloned().unwrap_or_default()).collect())
    }

    /// The names of all metrics that were scraped.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let answer = self.ask("/api/v1/label/__name__/values").await?;
        Ok(serde_json::from_value(answer)?)
    }

    async fn ask(&self, path: &str) -> Result<Value> {
        ensure_runs(&self.process)?;
        let (_, text) = get(self.port, path).await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer["status"] == "success", "{text}");
        Ok(answer["data"].take())
    }
}

fn spawn(server: &Path, directory: &Path) -> Result<(u16, Process)> {
    let [port] = ports::free()?;
    let args = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    let process = Process::spawn(ProcessSpec {
        name: "prometheus".to_owned(),
        program: server.to_owned(),
        args: args.map(Into::into).into(),
        env: Vec::new(),
        directory: directory.to_owned(),
        log: directory.join("log"),
        grace: Duration::ZERO,
    })?;
    Ok((port, process))
}

/// Waits until it answers; false if it has ended.
async fn is_ready(port: u16, process: &Process) -> Result<bool> {
    eventually("Prometheus is ready", START, async || {
        if process.exit().is_some() {
            return Ok(false);
        }
        let (status, text) = get(port, "/-/ready").await.map_err(|error| format!("{error:#}"))?;
        if status.is_success() { Ok(true) } else { Err(text) }
    })
    .await
}

fn ensure_runs(process: &Process) -> Result<()> {
    ensure!(process.exit().is_none(), "Prometheus has ended:\n{}", process.log_tail(20));
    Ok(())
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
