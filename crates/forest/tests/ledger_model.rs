//! The ledger of allowed increases, in every order of events: no update of the API server takes the sum of what a quota limits over
//! the limit.
//!
//! The model runs the real [`Ledger::decide`] in two replicas of the webhook. Each has its own view of the two derived quotas, which
//! is told of changes in their order but as late as it may be, and its own copy of the ledger. A replica decides, replaces the ledger
//! by compare-and-swap, and then answers; it may crash between any two steps. An answer may arrive at any time, or never. Beside
//! that, the quota controller counts anew, the controller changes quotas, and quotas are deleted and created again.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[path = "ledger_model/decide.rs"]
mod decide;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[path = "ledger_model/explore.rs"]
mod explore;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[path = "ledger_model/system.rs"]
mod system;

use explore::{breaks, explore};
use system::{Budget, Fault, System};

fn system(budget: Budget) -> System {
    System { fault: Fault::None, budget, most: 1, joins_with: None }
}

const NOTHING: Budget =
    Budget { requests: 0, raising_recounts: 0, lowering_recounts: 0, touches: 0, crashes: 0, deletions: 0 };

#[test]
fn no_order_of_events_takes_the_usage_over_the_limit() {
    explore("crashes", system(Budget { requests: 4, crashes: 1, ..NOTHING }));
    explore("touches", system(Budget { requests: 3, touches: 1, ..NOTHING }));
    explore("deletions", system(Budget { requests: 3, deletions: 1, ..NOTHING }));
    explore("higher counts", system(Budget { requests: 3, raising_recounts: 1, ..NOTHING }));
    explore("lower counts", system(Budget { requests: 3, lowering_recounts: 1, ..NOTHING }));
    let larger = System { most: 2, ..system(Budget { requests: 3, crashes: 1, ..NOTHING }) };
    explore("larger increases", larger);
}

#[test]
fn limits_that_are_reported_as_enforced_are_not_exceeded_by_what_was_allowed_before() {
    for used in [1, 2] {
        let budget = Budget { requests: 3, crashes: 1, ..NOTHING };
        explore("a namespace joins", System { joins_with: Some(used), ..system(budget) });
    }
}

#[test]
fn if_limits_are_reported_while_increases_are_pending_they_are_exceeded() {
    let budget = Budget { requests: 2, ..NOTHING };
    breaks(System { fault: Fault::PendingIgnored, joins_with: Some(1), ..system(budget) });
}

#[test]
fn without_the_floor_the_limit_is_exceeded() {
    breaks(System { fault: Fault::FloorIgnored, ..system(Budget { requests: 3, ..NOTHING }) });
}

#[test]
fn without_the_comparison_the_limit_is_exceeded() {
    breaks(System { fault: Fault::PlainWrite, ..system(Budget { requests: 3, ..NOTHING }) });
}

#[test]
fn if_reservations_end_by_time_the_limit_is_exceeded() {
    breaks(System { fault: Fault::ReservationsExpire, ..system(Budget { requests: 3, ..NOTHING }) });
}
