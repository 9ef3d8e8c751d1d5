//! Explores a system completely, or until the limit is exceeded.

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::system::{Action, State, System};

pub(crate) const EXCEEDED: &str = "no update of the API server takes the usage over the limit";
pub(crate) const BLOCKED: &str =
    "a replica that knows everything decides, unless an increase may still be stored";
pub(crate) const USED_UP: &str = "the limit is used up";
pub(crate) const BOTH: &str = "both replicas have allowed something that is not stored yet";

/// Explores everything that can happen.
pub(crate) fn explore(what: &str, system: System) {
    let checked = system.checker().threads(2).spawn_bfs().join();
    println!(
        "{what}: {} states, {} steps, at most {} deep",
        checked.unique_state_count(),
        checked.state_count(),
        checked.max_depth()
    );
    for found in [EXCEEDED, BLOCKED] {
        if let Some(path) = checked.discovery(found) {
            panic!("{what}: not so: {found}\n{}", trace(path));
        }
    }
    for seen in [USED_UP, BOTH] {
        assert!(checked.discovery(seen).is_some(), "{what}: never: {seen}");
    }
}

/// The steps that lead to a state, and the state.
fn trace(path: Path<State, Action>) -> String {
    let end = path.last_state().clone();
    let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
    format!("{}\n{end:?}", steps.join("\n"))
}

/// A fault with which the limit is exceeded.
pub(crate) fn breaks(system: System) {
    let fault = system.fault;
    let checked = system.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = checked.discovery(EXCEEDED);
    let path =
        path.unwrap_or_else(|| panic!("{fault:?} is not found in {} states", checked.unique_state_count()));
    assert!(path.last_state().exceeded, "the last step exceeds the limit");
    println!("{fault:?} is found after {} states:\n{}", checked.unique_state_count(), trace(path));
}
