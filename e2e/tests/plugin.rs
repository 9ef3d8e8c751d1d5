//! `kubectl hns` as people and scripts use it, on a real API server: HNC's outputs to the byte, and what is more than HNC's. What
//! the controller and the webhook do is shown elsewhere; where their part is only data, it is written here by hand.

#[cfg(test)]
mod plugin {
    mod accurate;
    mod connection;
    mod deep;
    mod deletion;
    mod doctor;
    mod elsewhere;
    mod explain;
    mod fixture;
    mod large;
    mod live;
    mod moving;
    mod picture;
    mod planning;
    mod refusals;
    mod rights;
    mod still;
}
