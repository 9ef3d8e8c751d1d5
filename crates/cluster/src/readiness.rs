//! The readiness of the process, and the reasons if it is not ready.
//!
//! Collects named conditions from the parts of a program; `/readyz` serves the report.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use tokio::sync::watch;

/// The readiness of a process: it is ready if every required condition holds and no shutdown has begun. Clones share
/// their state.
#[derive(Clone, Debug)]
pub struct Readiness {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    ready: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    shutting_down: bool,
    conditions: Vec<Entry>,
    declared: usize,
}

#[derive(Debug)]
struct Entry {
    id: usize,
    name: String,
    required: bool,
    /// `None` while the condition holds.
    reason: Option<String>,
}

/// A named condition. Only its owner changes it.
#[derive(Debug)]
pub struct Condition {
    readiness: Readiness,
    id: usize,
}

/// What `/readyz` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the process is ready.
    pub ready: bool,
    /// One line for each condition, starting with `[+]` or `[-]`, and a last line with the result.
    pub text: String,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// A readiness without conditions, which is ready. Add all conditions before it is served.
    pub fn new() -> Self {
        let (ready, _) = watch::channel(true);
        Self { shared: Arc::new(Shared { state: RwLock::default(), ready }) }
    }

    /// Adds a required condition, which does not hold yet because of `reason`.
    pub fn condition(&self, name: impl Into<String>, reason: impl Into<String>) -> Condition {
        self.add(name.into(), reason.into(), true)
    }

    /// Adds a condition that is reported and does not affect readiness.
    pub fn information(&self, name: impl Into<String>, reason: impl Into<String>) -> Condition {
        self.add(name.into(), reason.into(), false)
    }

    fn add(&self, name: String, reason: String, required: bool) -> Condition {
        let id = self.change(|state| {
            state.declared += 1;
            state.conditions.push(Entry { id: state.declared, name, required, reason: Some(reason) });
            state.declared
        });
        Condition { readiness: self.clone(), id }
    }

    /// Makes the process unready, whatever the conditions are.
    pub fn shutting_down(&self) {
        self.change(|state| state.shutting_down = true);
    }

    /// Whether the process is ready.
    pub fn is_ready(&self) -> bool {
        self.shared.state.read().is_ready()
    }

    /// Waits until the process is ready; does not return after a shutdown has begun.
    pub async fn ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        // Cannot fail: `self` keeps the sender.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// What `/readyz` answers now.
    pub fn report(&self) -> Report {
        let state = self.shared.state.read();
        Report { ready: state.is_ready(), text: state.to_string() }
    }

    /// What `/readyz` answers now, with the conditions of another part as well.
    pub fn report_with(&self, part: &Self) -> Report {
        let (state, part) = (self.shared.state.read(), part.shared.state.read());
        let ready = state.is_ready() && part.is_ready();
        Report { ready, text: format!("{}{}{}", state.lines(), part.lines(), conclusion(ready)) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.write();
        let result = change(&mut state);
        let ready = state.is_ready();
        // Under the lock, so that changes are published in order.
        self.shared.ready.send_if_modified(|published| {
            let differs = *published != ready;
            *published = ready;
            differs
        });
        result
    }
}

impl Condition {
    /// Sets the condition.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Resets the condition, because of `reason`.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    /// Whether the condition holds.
    pub fn is_ready(&self) -> bool {
        let state = self.readiness.shared.state.read();
        state.conditions.iter().all(|entry| entry.id != self.id || entry.reason.is_none())
    }

    /// Removes the condition: it is no longer reported and does not count.
    pub fn withdraw(self) {
        self.readiness.change(|state| state.conditions.retain(|entry| entry.id != self.id));
    }

    fn set(&self, reason: Option<String>) {
        self.readiness.change(|state| {
            if let Some(entry) = state.conditions.iter_mut().find(|entry| entry.id == self.id) {
                entry.reason = reason;
            }
        });
    }
}

impl State {
    fn is_ready(&self) -> bool {
        let holds = |entry: &Entry| !entry.required || entry.reason.is_none();
        !self.shutting_down && self.conditions.iter().all(holds)
    }

    /// A line for each condition.
    fn lines(&self) -> String {
        let line = |Entry { name, required, reason, .. }: &Entry| match (reason, required) {
            (None, _) => format!("[+]{name} ok\n"),
            (Some(reason), true) => format!("[-]{name} not ready: {reason}\n"),
            (Some(reason), false) => format!("[-]{name} degraded: {reason}\n"),
        };
        let mut lines: String = self.conditions.iter().map(line).collect();
        if self.shutting_down {
            lines.push_str("[-]shutdown not ready: shutting down\n");
        }
        lines
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lines(), conclusion(self.is_ready()))
    }
}

fn conclusion(ready: bool) -> &'static str {
    if ready { "readyz check passed\n" } else { "readyz check failed\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_conditions_affect_readiness() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let namespaces = readiness.condition("namespaces", "first list is under way");
        let certificate = readiness.condition("certificate", "tls.crt is missing");
        let secrets = readiness.information("secrets", "may not be listed");
        assert!(!readiness.is_ready());
        namespaces.ready();
        assert!(!readiness.is_ready() && namespaces.is_ready());
        certificate.ready();
        assert!(readiness.is_ready() && !secrets.is_ready());
        assert_eq!(
            readiness.report().text,
            "[+]namespaces ok\n[+]certificate ok\n[-]secrets degraded: may not be listed\n\
             readyz check passed\n"
        );
        certificate.not_ready("gone");
        assert_eq!(
            readiness.report(),
            Report {
                ready: false,
                text: "[+]namespaces ok\n[-]certificate not ready: gone\n\
                       [-]secrets degraded: may not be listed\nreadyz check failed\n"
                    .to_owned()
            }
        );
    }

    #[test]
    fn withdrawn_conditions_are_removed() {
        let readiness = Readiness::new();
        let conditions = ["a", "b", "c"].map(|name| readiness.condition(name, "not yet"));
        let [first, second, third] = conditions;
        second.withdraw();
        third.ready();
        assert_eq!(readiness.report().text, "[-]a not ready: not yet\n[+]c ok\nreadyz check failed\n");
        first.withdraw();
        assert!(readiness.is_ready());
    }

    #[tokio::test]
    async fn waiting_ends_when_all_conditions_hold() {
        let readiness = Readiness::new();
        let condition = readiness.condition("a", "b");
        let waiting = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        condition.ready();
        waiting.await.unwrap();
    }

    #[test]
    fn a_shutdown_overrides_everything() {
        let readiness = Readiness::new();
        let condition = readiness.condition("a", "b");
        readiness.shutting_down();
        condition.ready();
        let report = readiness.report();
        assert!(!report.ready);
        assert!(report.text.contains("[-]shutdown"), "{}", report.text);
    }
}
