//! The address of a server, in Go's syntax.
//!
//! Parses addresses and opens sockets; serves nothing.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr},
};

use tokio::net::TcpListener;

/// The most connections that the kernel keeps until they are accepted. With tokio's 128, a client that connects as often in a few
/// milliseconds delays all others by a second, after which their kernels try again.
const BACKLOG: i32 = 4096;

/// An address in Go's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Nothing is served.
    Off,
    /// A host name or an address, and a port.
    Host(String, u16),
    /// This port on all interfaces.
    AllInterfaces(u16),
}

impl ListenAddress {
    /// The address of a host, or of all interfaces if `host` is empty.
    pub fn new(host: &str, port: u16) -> Self {
        if host.is_empty() { Self::AllInterfaces(port) } else { Self::Host(host.to_owned(), port) }
    }

    /// Parses `host:port`, `[address]:port`, `:port` (all interfaces), or `0` or an empty text (off). Port 0 takes any free port.
    ///
    /// # Errors
    /// The reason, as the end of a sentence that already names the value.
    pub fn parse(value: &str) -> Result<Self, String> {
        if value.is_empty() || value == "0" {
            return Ok(Self::Off);
        }
        let wrong = || "expected host:port, or :port for all interfaces".to_owned();
        let (host, port) = value.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| "the port is not a number up to 65535".to_owned())?;
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bracketed {
            Some(address) if address.parse::<Ipv6Addr>().is_ok() => address,
            Some(_) => return Err(wrong()),
            None if host.contains([':', '/', '[', ']']) => return Err(wrong()),
            None => host,
        };
        Ok(Self::new(host, port))
    }

    /// Opens the socket; `None` if the server is off.
    ///
    /// # Errors
    /// The operating system's: the port is taken or needs privileges, or the host has no such address.
    pub async fn listen(&self) -> io::Result<Option<TcpListener>> {
        let listener = match self {
            Self::Off => return Ok(None),
            Self::Host(host, port) => TcpListener::bind((host.as_str(), *port)).await?,
            Self::AllInterfaces(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                // No IPv6 on this node.
                Err(error) if without_ipv6(&error) => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await?
                }
                other => other?,
            },
        };
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Some(listener))
    }
}

fn without_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Host(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::AllInterfaces(port) => write!(f, ":{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_spellings() {
        let table = [
            ("", Ok(ListenAddress::Off)),
            ("0", Ok(ListenAddress::Off)),
            (":8080", Ok(ListenAddress::AllInterfaces(8080))),
            (":0", Ok(ListenAddress::AllInterfaces(0))),
            ("127.0.0.1:81", Ok(ListenAddress::Host("127.0.0.1".into(), 81))),
            ("localhost:81", Ok(ListenAddress::Host("localhost".into(), 81))),
            ("[::1]:81", Ok(ListenAddress::Host("::1".into(), 81))),
            ("8080", Err(())),
            (":65536", Err(())),
            (":http", Err(())),
            ("::1:81", Err(())),
            ("[::1:81", Err(())),
            ("http://a:81", Err(())),
            (":-1", Err(())),
        ];
        for (given, expected) in table {
            assert_eq!(ListenAddress::parse(given).map_err(|_| ()), expected, "{given:?}");
        }
    }

    #[test]
    fn is_printed_as_it_is_read() {
        for given in [":8080", "127.0.0.1:81", "[::1]:81"] {
            assert_eq!(ListenAddress::parse(given).unwrap().to_string(), given);
        }
    }

    #[tokio::test]
    async fn all_interfaces_include_ipv4_loopback() {
        let listener = ListenAddress::AllInterfaces(0).listen().await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        assert!(ListenAddress::Off.listen().await.unwrap().is_none());
    }
}
