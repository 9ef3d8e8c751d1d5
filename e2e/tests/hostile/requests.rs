//! Requests that are not reviews get a response with a reason, and are logged.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::names::paths;
use hns_e2e::{Replica, eventually};
use http::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::client::{Client, Sent};
use super::fixture::{unharmed, webhook};
use super::review::{creation, honest};

const HUGE: usize = 32 * 1024 * 1024;

/// What is wrong, the request, the status, and a part of the response.
type Case = (&'static str, Sent, u16, &'static str);

fn cases() -> Vec<Case> {
    let review = creation("u-2", &json!({}));
    let json = |body: &str| Sent::json(paths::NAMESPACES, body.to_owned());
    let with = |pointer: &str, value: Value| {
        let mut review = review.clone();
        *review.pointer_mut(pointer).expect("a review has this") = value;
        json(&review.to_string())
    };
    let proper = json(&review.to_string());
    let huge = format!("{{\"kind\":\"{}", "x".repeat(HUGE));
    let without_request = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#;
    vec![
        ("a malformed body", json("{\"kind\": \"AdmissionReview\","), 400, "AdmissionReview"),
        ("no JSON", json("kind: AdmissionReview"), 400, "AdmissionReview"),
        ("an empty body", json(""), 400, "empty"),
        ("32 MiB", json(&huge), 413, "too large"),
        ("a list", json("[]"), 400, "AdmissionReview"),
        ("no request", json(without_request), 400, "no request"),
        ("another version", with("/apiVersion", json!("admission.k8s.io/v1beta1")), 400, "v1beta1"),
        ("another kind", with("/kind", json!("TokenReview")), 400, "TokenReview"),
        ("an object that is none", with("/request/object", json!(7)), 400, "AdmissionReview"),
        ("labels that are none", with("/request/object/metadata/labels", json!([1])), 400, "AdmissionReview"),
        ("YAML", Sent { content_type: Some("application/yaml"), ..proper.clone() }, 415, "application/yaml"),
        ("no content type", Sent { content_type: None, ..proper.clone() }, 415, "untyped"),
        ("GET", Sent { method: Method::GET, body: Bytes::new(), ..proper.clone() }, 405, "POST"),
        (
            "an unknown path",
            Sent { path: "/validate-everything".into(), ..proper },
            404,
            "there is no webhook",
        ),
    ]
}

#[tokio::test]
async fn what_is_no_review_gets_a_clear_4xx_and_a_line_in_the_log() -> Result<()> {
    let (product, replica) = webhook().await?;
    let client = Client::new(&product)?;
    honest(&client).await?;
    for (what, sent, code, said) in cases() {
        let lines = refusals(&replica);
        let (status, body) = client.ask(sent).await.context(what)?;
        ensure!(status.as_u16() == code && body.contains(said), "{what}: {status} {body:?}");
        eventually(&format!("{what}: a line in the log"), Duration::from_secs(2), async || {
            let status = format!("\"status\":{code}");
            let new: Vec<String> = refusals(&replica).split_off(lines.len());
            let logged = new.iter().any(|line| line.contains(&status));
            if logged { Ok(()) } else { Err(format!("{new:?}")) }
        })
        .await?;
        println!("{what}: {status}: {}", body.trim());
        honest(&client).await?;
    }
    unharmed(&replica)
}

/// The lines about requests that were no reviews.
fn refusals(replica: &Replica) -> Vec<String> {
    let log = replica.log();
    log.lines().filter(|line| line.contains("no admission review")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_body_that_never_arrives_is_not_waited_for() -> Result<()> {
    let (product, replica) = webhook().await?;
    let client = Client::new(&product)?;
    let head = format!(
        "POST {}?timeout=2s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        paths::NAMESPACES
    );
    for (what, pause) in [("nothing", None), ("a byte now and then", Some(Duration::from_millis(100)))] {
        let mut stream = client.tls().await?;
        stream.write_all(head.as_bytes()).await?;
        let began = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let trickle = tokio::spawn(async move {
            // An error says that the webhook has closed the connection.
            while let Some(pause) = pause
                && writer.write_all(b" ").await.is_ok()
            {
                sleep(pause).await;
            }
            // Not dropped, which would close the connection.
            std::future::pending::<()>().await;
        });
        let mut answer = vec![0; 1024];
        let length =
            timeout(Duration::from_secs(10), reader.read(&mut answer)).await.context("no answer")??;
        trickle.abort();
        let (took, answer) = (began.elapsed(), String::from_utf8_lossy(&answer[..length]).into_owned());
        ensure!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive"), "{answer:?}");
        ensure!((Duration::from_millis(1500)..Duration::from_secs(4)).contains(&took), "{took:?}");
        println!("of a body {what} arrives: 408 after {took:.1?}");
        honest(&client).await?;
    }
    unharmed(&replica)
}
