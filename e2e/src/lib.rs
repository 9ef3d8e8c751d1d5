//! A real Kubernetes control plane on loopback for tests and demonstrations, and programs to run hns on it. Nothing here is part
//! of the product, and nothing here fakes an API server.
//!
//! Start with [`Cluster`]. Every process ends with the test that started it, also when the test panics or is killed.

mod apt;
pub mod audit;
pub mod balancer;
mod cgroups;
mod cleanup;
pub mod cluster;
pub mod command;
pub mod deployed;
pub mod dice;
pub mod http;
pub mod node;
pub mod ports;
pub mod process;
pub mod product;
pub mod programs;
pub mod proxy;
pub mod shell;
pub mod steps;
pub mod wait;

pub use audit::{Audit, AuditEvent, Mark};
pub use balancer::Balancer;
pub use cgroups::CpuLimit;
pub use cluster::{Cluster, Kubectl, Setup};
pub use command::{Command, Output};
pub use deployed::Deployed;
pub use dice::Dice;
pub use node::Node;
pub use process::{Exit, Process, ProcessSpec, Signal};
pub use product::{Component, Launch, NAMESPACE, Options, Product, Replica};
pub use programs::Programs;
pub use proxy::{Fault, Proxy};
pub use shell::Shell;
pub use steps::{Steps, refusal};
pub use wait::{eventually, never, stays};
