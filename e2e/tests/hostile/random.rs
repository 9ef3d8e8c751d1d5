//! Random bytes, and reviews that are broken in one place. The seed is fixed, so a failure can be repeated.

use anyhow::{Context, Result, ensure};
use hns_api::names::paths;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Duration, timeout};

use super::client::{Client, Sent};
use super::fixture::{unharmed, webhook};
use super::review::{creation, honest, placement};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator that is as random as needed here: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % bound.max(1)
    }

    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        (0..self.below(longest)).map(|_| self.next().to_le_bytes()[7]).collect()
    }
}

#[tokio::test]
async fn random_and_broken_requests_never_make_it_panic() -> Result<()> {
    let (product, replica) = webhook().await?;
    let client = Client::new(&product)?;
    let mut random = Random(SEED);
    println!("seed {SEED:#x}");
    let mut answers = std::collections::BTreeMap::<u16, usize>::new();
    for round in 0..300 {
        let path = [paths::NAMESPACES, paths::HIERARCHY_CONFIGURATIONS][random.below(2)];
        let body = match round % 3 {
            0 => random.bytes(2000),
            1 => damaged(&mut random, path),
            _ => altered(&mut random, path),
        };
        let shown = String::from_utf8_lossy(&body).into_owned();
        // Short, since some of these wait for a namespace that does not come.
        let sent = Sent::json(&format!("{path}?timeout=1s"), body);
        let (status, answer) =
            client.ask(sent).await.with_context(|| format!("round {round}, seed {SEED:#x}: {shown}"))?;
        let code = status.as_u16();
        ensure!(code == 200 || (400..500).contains(&code), "round {round}: {status} {answer}: {shown}");
        *answers.entry(code).or_default() += 1;
    }
    println!("300 broken requests were answered: {answers:?}");
    ensure!(answers.contains_key(&200) && answers.contains_key(&400), "some could be read and some not");
    raw(&client, &mut random).await?;
    honest(&client).await?;
    unharmed(&replica)
}

fn whole(path: &str) -> Value {
    if path == paths::NAMESPACES { creation("u-3", &json!({ "a": "b" })) } else { placement("u-3") }
}

/// A review that ends early, or with some bytes changed.
fn damaged(random: &mut Random, path: &str) -> Vec<u8> {
    let mut body = whole(path).to_string().into_bytes();
    if random.below(2) == 0 {
        body.truncate(random.below(body.len()));
    } else {
        for _ in 0..=random.below(4) {
            let place = random.below(body.len());
            body[place] = random.next().to_le_bytes()[7];
        }
    }
    body
}

/// A review in which one value is another one, or is missing.
fn altered(random: &mut Random, path: &str) -> Vec<u8> {
    let mut review = whole(path);
    let mut pointers = Vec::new();
    collect(&review, "", &mut pointers);
    let pointer = pointers.swap_remove(random.below(pointers.len()));
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let values = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{0}\u{202e}\u{1f600}"),
        json!("x".repeat(70_000)),
        json!([]),
        json!({}),
        json!({ "": { "": [] } }),
        deep,
    ];
    let value = values[random.below(values.len())].clone();
    if let Some(place) = review.pointer_mut(&pointer) {
        *place = value;
    }
    review.to_string().into_bytes()
}

/// The place of every value within a review, itself left out.
fn collect(value: &Value, at: &str, pointers: &mut Vec<String>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers.push(at.clone());
        collect(inner, &at, pointers);
    }
}

/// Bytes that are no TLS, and bytes within TLS that are no HTTP.
async fn raw(client: &Client, random: &mut Random) -> Result<()> {
    for round in 0..100 {
        let bytes = random.bytes(500);
        let mut answer = Vec::new();
        // The connection may be answered, closed or reset, as long as it ends. The server may wait for more bytes, so the end
        // of the stream is sent.
        if round % 2 == 0 {
            let mut stream = client.tcp().await?;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer))
                .await
                .context("bytes on TCP")?;
        } else {
            let mut stream = client.tls().await?;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer))
                .await
                .context("bytes on TLS")?;
        }
    }
    println!("100 connections of random bytes have ended");
    Ok(())
}
