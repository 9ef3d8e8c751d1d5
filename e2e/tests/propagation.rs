//! What docs/compatibility.md says about propagation, on a real API server.

#[cfg(test)]
mod propagation {
    mod configuration;
    mod copies;
    mod denials;
    mod elsewhere;
    mod guard;
    mod kinds;
    mod names;
    mod references;
    mod request;
    mod scene;
    mod speed;
    mod table;
    mod writes;
}
