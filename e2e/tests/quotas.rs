//! Hierarchical resource quotas (section 12 of docs/compatibility.md) on a real API server with its quota controller.

#[cfg(test)]
mod quotas {
    mod derived;
    mod kinds;
    mod limits;
    mod load;
    mod moves;
    mod scene;
}
