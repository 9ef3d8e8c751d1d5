//! What reaches the webhook, what the API server refuses by itself, what becomes of both while no webhook answers, and who
//! keeps the registrations and policies that decide it.
//!
//! But for the last, no binary of the product is at work here: the webhook is one of the tests' own, which allows everything
//! and writes down what it is asked. The tables are in `registrations/`: `world.yaml` is what is there; `calls.yaml`,
//! `calls-without-policies.yaml` and `outage.yaml` are what is tried.

#[cfg(test)]
mod registrations {
    mod calls;
    mod collector;
    mod install;
    mod keeping;
    mod limits;
    mod mutants;
    mod outage;
    mod recorder;
    mod table;
}
