//! The product while part of the cluster is unavailable; nothing is lost or deleted: a propagated kind, a configured one, the
//! definition of our own kind, the API server, a part of a watch, an invalid object; or while another client changes or refuses
//! what is written.
//!
//! In every case the webhook, too, writes nothing but access reviews.

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
