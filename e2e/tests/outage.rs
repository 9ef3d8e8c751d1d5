//! What goes on while part of the cluster cannot be had, and that nothing is lost or deleted by it: a propagated kind, a
//! configured one, the definition of our own kind, the API server, a piece of a watch, an object that says nothing sensible;
//! or while somebody else changes or refuses what is written.
//!
//! In every case the webhook, too, writes nothing but questions.

#[cfg(test)]
mod outage {
    mod configured;
    mod definition;
    mod fixture;
    mod gap;
    mod interference;
    mod kind;
    mod moments;
    mod objects;
    mod restart;
    mod unreadable;
}
