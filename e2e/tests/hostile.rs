//! The binaries under attack: invalid requests, silent clients, signals at any time, invalid command lines. The verdicts of the
//! rules are tested elsewhere.
//!
//! After every refusal, valid reviews are answered: one is allowed and one is denied.

#[cfg(test)]
mod hostile {
    mod client;
    mod fixture;
    mod flags;
    mod forged;
    mod pending;
    mod port;
    mod probes;
    mod random;
    mod requests;
    mod review;
    mod shutdown;
    mod silence;
}
