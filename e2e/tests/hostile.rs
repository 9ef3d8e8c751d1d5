//! The binaries and those who mean them no good: requests that are none, clients that say nothing, signals at any time,
//! command lines with mistakes. Nothing here is about what is refused to whom.
//!
//! After everything that is refused, an honest review is answered: allowed where it should be, and denied where not.

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
