//! A resolver that answers what the test says.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// Names and their addresses, in turn: the last stays.
#[derive(Debug, Clone, Default)]
pub struct Zone(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Zone {
    /// Has a name lead to these addresses: those of the first list, then of the next.
    pub fn put(&self, name: &str, answers: &[&[&str]]) {
        let parse = |one: &&[&str]| one.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
    }

    /// Only a question for IPv4 takes an answer off.
    fn answer(&self, name: &str, kind: u16) -> Option<Vec<IpAddr>> {
        let mut zone = self.0.lock().unwrap();
        let answers = zone.get_mut(name)?;
        let found = answers.first().cloned().unwrap_or_default();
        if kind == 1 && answers.len() > 1 {
            answers.remove(0);
        }
        Some(found.into_iter().filter(|ip| ip.is_ipv4() == (kind == 1)).collect())
    }

    /// Answers at the address that comes back, as long as the test runs.
    #[must_use]
    pub fn serve(self) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                let query = &buffer[..len];
                let mut at = 12;
                let mut labels = Vec::new();
                while query[at] != 0 {
                    let end = at + 1 + usize::from(query[at]);
                    labels.push(String::from_utf8_lossy(&query[at + 1..end]).into_owned());
                    at = end;
                }
                let question = &query[12..at + 5];
                let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
                let found = self.answer(&labels.join("."), kind);
                let mut reply = query[..2].to_vec();
                reply.extend([0x81, if found.is_some() { 0x80 } else { 0x83 }]);
                let found = found.unwrap_or_default();
                reply.extend([0, 1, 0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
                reply.extend(question);
                for address in found {
                    reply.extend([0xc0, 12]);
                    reply.extend(kind.to_be_bytes());
                    reply.extend([0, 1, 0, 0, 0, 60, 0]);
                    match address {
                        IpAddr::V4(v4) => reply.extend([&[4][..], &v4.octets()].concat()),
                        IpAddr::V6(v6) => reply.extend([&[16][..], &v6.octets()].concat()),
                    }
                }
                socket.send_to(&reply, peer).unwrap();
            }
        });
        address
    }
}
