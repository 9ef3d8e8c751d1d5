//! Hierarchical resource quotas (section 12 of docs/compatibility.md) on a real API server with its quota controller.

#[cfg(test)]
mod quotas {
    mod churn;
    mod derived;
    mod enabling;
    mod events;
    mod force;
    mod kinds;
    mod ledger;
    mod limits;
    mod load;
    mod moves;
    mod outage;
    mod rules;
    mod scene;
    mod tenants;
    mod workshop;
}
