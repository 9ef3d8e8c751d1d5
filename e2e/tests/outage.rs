//! What goes on while part of the cluster cannot be had, and that nothing is lost or deleted by it: a propagated kind, the
//! definition of our own kind, the API server, a piece of a watch, an object that says nothing sensible.
//!
//! In every case the webhook, too, writes nothing but questions.

#[cfg(test)]
mod outage {
    mod definition;
    mod gap;
    mod kind;
    mod restart;
    mod unreadable;
    mod world;
}
