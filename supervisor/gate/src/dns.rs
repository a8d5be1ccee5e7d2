//! Names to addresses: hosts(5) first, then the resolvers of resolv.conf(5), over UDP, and TCP for long
//! answers. Names are whole: no search list applies.
//!
//! Nothing is kept: the host has a cache if its operator wants one, and an address that is connected
//! to is checked each time.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use vivarium_egress::Name;

mod message;

use message::{Answer, Kind};

/// The most that one resolver is waited for.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The most resolvers that are asked.
const MAX_SERVERS: usize = 3;
/// The most addresses that are looked at.
const MAX_ADDRESSES: usize = 32;

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsError {
    #[error("no resolver answered")]
    Io(#[from] io::Error),
    #[error("an answer to another question, or none that can be read")]
    Malformed,
    #[error("the resolver could not say")]
    Failed,
}

/// Whom to ask.
#[derive(Debug)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    hosts: HashMap<Name, Vec<IpAddr>>,
}

impl Resolver {
    /// Reads what can be read: without a resolver, only names of the hosts file are found.
    pub(crate) fn read(resolv_conf: &Path, hosts: &Path, instead: &[SocketAddr]) -> Self {
        let text = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let servers = if instead.is_empty() {
            servers(&text(resolv_conf).unwrap_or_default())
        } else {
            instead.to_vec()
        };
        Self { servers, hosts: names(&text(hosts).unwrap_or_default()) }
    }

    /// The addresses of a name, of IPv4 first; none if it has none.
    pub(crate) async fn lookup(&self, name: &Name) -> Result<Vec<IpAddr>, DnsError> {
        if let Some(addresses) = self.hosts.get(name) {
            return Ok(addresses.clone());
        }
        let (v4, v6) = tokio::join!(self.ask(name, Kind::V4), self.ask(name, Kind::V6));
        let mut addresses = match (v4, v6) {
            (Err(error), Err(_)) => return Err(error),
            (v4, v6) => [v4.unwrap_or_default(), v6.unwrap_or_default()].concat(),
        };
        addresses.truncate(MAX_ADDRESSES);
        Ok(addresses)
    }

    async fn ask(&self, name: &Name, kind: Kind) -> Result<Vec<IpAddr>, DnsError> {
        let mut failed = DnsError::Failed;
        for server in self.servers.iter().take(MAX_SERVERS) {
            match timeout(ATTEMPT, exchange(*server, name, kind)).await {
                Ok(Ok(addresses)) => return Ok(addresses),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = DnsError::Io(io::ErrorKind::TimedOut.into()),
            }
        }
        Err(failed)
    }
}

async fn exchange(server: SocketAddr, name: &Name, kind: Kind) -> Result<Vec<IpAddr>, DnsError> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|_| DnsError::Failed)?;
    let id = u16::from_ne_bytes(id);
    let query = message::query(id, name, kind).ok_or(DnsError::Malformed)?;
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port of its own for each question. Connected: what others send is dropped by the kernel.
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(&query).await?;
    let mut buffer = [0; 4096];
    loop {
        let len = socket.recv(&mut buffer).await?;
        let bytes = buffer.get(..len).unwrap_or_default();
        match message::answer(bytes, id, name, kind) {
            Answer::Addresses(addresses) => return Ok(addresses),
            Answer::Failed => return Err(DnsError::Failed),
            Answer::Truncated => break,
            // Somebody guesses.
            Answer::Foreign => {}
        }
    }
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(query.len()).map_err(|_| DnsError::Malformed)?;
    stream.write_all(&[&len.to_be_bytes()[..], &query].concat()).await?;
    let mut bytes = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut bytes).await?;
    match message::answer(&bytes, id, name, kind) {
        Answer::Addresses(addresses) => Ok(addresses),
        Answer::Failed => Err(DnsError::Failed),
        Answer::Truncated | Answer::Foreign => Err(DnsError::Malformed),
    }
}

fn servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let lines = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let words = lines.filter_map(|rest| rest.split_whitespace().next());
    words.filter_map(|word| Some(SocketAddr::new(word.parse().ok()?, 53))).collect()
}

fn names(hosts: &str) -> HashMap<Name, Vec<IpAddr>> {
    let mut found: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    for line in hosts.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words.filter_map(|word| word.parse::<Name>().ok()) {
            found.entry(name).or_default().push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_libc_reads_them() {
        let text =
            "# x\nnameserver 192.0.2.1\n nameserver\t::1 # y\nnameserver fe80::1%eth0\nsearch a\n";
        let expected: [SocketAddr; 2] =
            ["192.0.2.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()];
        assert_eq!(servers(text), expected);
        let found =
            names("127.0.0.1 localhost\n::1 LocalHost # x\n#1.1.1.1 a.com\n1.1.1.1 b.com c.com");
        assert_eq!(found[&"localhost".parse().unwrap()].len(), 2);
        assert_eq!(found.len(), 3);
    }
}
