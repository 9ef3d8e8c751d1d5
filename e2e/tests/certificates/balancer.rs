//! Replaces a Service: spreads connections to one port over several backends.

use std::net::Ipv4Addr;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Ends when dropped, and with it the listening; connections end by themselves.
pub(crate) struct Balancer(JoinHandle<()>);

impl Balancer {
    /// Passes every connection to `port` on to the next of `backends`.
    pub(crate) async fn start(port: u16, backends: Vec<u16>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        Ok(Self(tokio::spawn(async move {
            for backend in backends.into_iter().cycle() {
                let Ok((mut client, _)) = listener.accept().await else { return };
                tokio::spawn(async move {
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, backend)).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        })))
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
