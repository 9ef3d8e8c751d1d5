//! Whether the table of calls would notice: each part of each condition and each rule is replaced by `true` and by `false`,
//! one after the other, and some row must object.
//!
//! Only the condition of the policy about our keys may be made to match more: it saves work, and its rules hold by themselves
//! where nothing of ours is touched. Nor is anything lost where the policies about quotas judge the controller: it has the rights
//! with which nobody is refused.

use std::ops::Range;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::calls::judge;
use super::install::{Turn, turn};
use super::table::{self, Row, Users};

/// Longer than the API server takes to enforce a changed policy.
const ENFORCED: Duration = Duration::from_secs(5);

/// An object with one part of it replaced.
struct Mutant {
    path: String,
    object: Value,
    original: Value,
    /// What was replaced by what, and where.
    what: String,
}

#[tokio::test]
#[ignore = "takes about a quarter of an hour; run it after changing a condition, a rule or the tables"]
async fn some_row_objects_to_every_part_left_out() {
    let turn = turn().await;
    turn.alive().await;
    let users = Users::of(turn.cluster());
    let tables = table::read(include_str!("calls.yaml"));
    let rows: Vec<&Row> = tables.iter().flat_map(|table| &table.rows).collect();
    let mutants: Vec<Mutant> = turn
        .registered()
        .iter()
        .flat_map(mutants)
        .filter(|m| std::env::var("MUTANTS").map_or(true, |f| m.what.contains(&f)))
        .filter(|m| !m.judges_the_controller_about_quotas())
        .collect();
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let applied = replace(&users, &mutant.path, &mutant.object).await;
        let objecting = match applied {
            Ok(()) => until_one_objects(&turn, &users, &rows).await,
            Err(error) => Some(format!("(the API server: {error})")),
        };
        replace(&users, &mutant.path, &mutant.original).await.unwrap();
        until_none_objects(&turn, &users, &rows).await;
        println!("{}: {}", mutant.what, objecting.as_deref().unwrap_or("NOBODY OBJECTS"));
        if objecting.is_none() {
            survivors.push(&mutant.what);
        }
    }
    println!("{} mutants, {} survive: {survivors:#?}", mutants.len(), survivors.len());
    assert!(survivors.is_empty());
}

async fn until_one_objects(turn: &Turn, users: &Users<'_>, rows: &[&Row]) -> Option<String> {
    let began = Instant::now();
    loop {
        for row in rows {
            if !judge(turn, users, row).await.is_empty() {
                return Some(row.it.clone());
            }
        }
        if began.elapsed() > ENFORCED {
            return None;
        }
    }
}

async fn until_none_objects(turn: &Turn, users: &Users<'_>, rows: &[&Row]) {
    for _ in 0..20 {
        let mut objections = 0;
        for row in rows {
            objections += judge(turn, users, row).await.len();
        }
        if objections == 0 {
            return;
        }
    }
    unreachable!("the original is back, and the table is not as before");
}

async fn replace(users: &Users<'_>, path: &str, object: &Value) -> Result<(), kube::Error> {
    let now = users.send("operator", Method::GET, path, &Value::Null).await?;
    let mut object = object.clone();
    object["metadata"] = now["metadata"].clone();
    users.send("operator", Method::PUT, path, &object).await.map(drop)
}

impl Mutant {
    fn judges_the_controller_about_quotas(&self) -> bool {
        let of = ["hns-quotas", "hns-resource-quotas"].map(|name| format!("{name}/spec/matchConditions/0/"));
        of.iter().any(|it| self.what.starts_with(it)) && self.what.ends_with(" -> true")
    }
}

fn mutants(object: &Value) -> Vec<Mutant> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{name}", table::collection_of(object).replace("policys", "policies"));
    let mut found = Vec::new();
    for pointer in expressions(object) {
        let expression = object.pointer(&pointer).and_then(Value::as_str).unwrap();
        for part in parts(expression) {
            for word in ["true", "false"] {
                let mut mutant = object.clone();
                let mutated = format!("{}{word}{}", &expression[..part.start], &expression[part.end..]);
                *mutant.pointer_mut(&pointer).unwrap() = mutated.into();
                let what =
                    format!("{name}{pointer}: {} -> {word}", expression[part.clone()].replace('\n', " "));
                found.push(Mutant { path: path.clone(), object: mutant, original: object.clone(), what });
            }
        }
    }
    found
}

/// Where the conditions and rules stand.
fn expressions(object: &Value) -> Vec<String> {
    let lists = match object["webhooks"].as_array() {
        Some(webhooks) => (0..webhooks.len()).map(|at| format!("/webhooks/{at}/matchConditions")).collect(),
        None => vec!["/spec/matchConditions".to_owned(), "/spec/validations".to_owned()],
    };
    let each = lists.into_iter().flat_map(|list| {
        let length = object.pointer(&list).and_then(Value::as_array).map_or(0, Vec::len);
        (0..length).map(move |at| format!("{list}/{at}/expression"))
    });
    each.collect()
}

/// The whole expression, and everything in it that stands beside `&&`, `||`, or in a choice, however deep.
fn parts(expression: &str) -> Vec<Range<usize>> {
    let whole = 0..expression.len();
    let mut parts = Vec::from([whole]);
    // Per open bracket: where the present part began, the parts so far, and whether there is anything to choose between.
    let mut open: Vec<(usize, Vec<Range<usize>>, bool)> = vec![(0, vec![], false)];
    let mut quoted = false;
    let bytes = expression.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &expression[at..];
        let operator =
            ["&&", "||", " ?\n", " ? ", " :\n", " : ", ", "].into_iter().find(|it| rest.starts_with(it));
        match (bytes[at], operator) {
            (b'\'', _) => quoted = !quoted,
            _ if quoted => {}
            (b'(' | b'[' | b'{', _) => open.push((at + 1, vec![], false)),
            (b')' | b']' | b'}', _) => close(&mut open, at, &mut parts),
            (_, Some(operator)) => {
                let (began, siblings, chosen) = open.last_mut().unwrap();
                siblings.push(*began..at);
                *chosen |= operator != ", ";
                at += operator.len() - 1;
                *began = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    close(&mut open, expression.len(), &mut parts);
    let trimmed = parts.into_iter().map(|part| {
        let text = &expression[part.clone()];
        let start = part.start + (text.len() - text.trim_start().len());
        start..start + text.trim().len()
    });
    // The variable of a loop is no condition.
    let mut kept: Vec<Range<usize>> = trimmed.filter(|part| part.len() > 1).collect();
    kept.sort_by_key(|part| (part.start, part.end));
    kept.dedup();
    kept
}

fn close(open: &mut Vec<(usize, Vec<Range<usize>>, bool)>, at: usize, parts: &mut Vec<Range<usize>>) {
    let (began, mut siblings, chosen) = open.pop().unwrap();
    siblings.push(began..at);
    if chosen {
        parts.extend(siblings);
    }
}
