//! Requests and answers in pieces, on a socket of the test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use vivarium_tests::Daemon;
use vivarium_tests::http::Endpoint;
use vivarium_tests::wait::DEADLINE;

/// A request under way.
pub(crate) struct Exchange {
    stream: BufReader<UnixStream>,
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    lines: Vec<String>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.lines.iter().filter_map(|line| line.split_once(':'));
        let found = pairs.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub(crate) fn length(&self) -> u64 {
        self.header("content-length").unwrap().parse().unwrap()
    }
}

impl Exchange {
    /// Sends a request's head. The connection ends with the answer.
    pub(crate) fn begin(daemon: &Daemon, method: &str, path: &str, headers: &str) -> Self {
        let Endpoint::Unix(socket) = daemon.unix() else { unreachable!() };
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let mut exchange = Self { stream: BufReader::new(stream) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        );
        assert!(exchange.send(head.as_bytes()));
        exchange
    }

    /// Sends some of the body; whether the server took it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Reads the answer's head.
    pub(crate) fn head(&mut self) -> Option<Head> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines.first()?.split(' ').nth(1)?.parse().ok()?;
        Some(Head { status, lines })
    }

    /// Reads some of the answer's body.
    pub(crate) fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads the rest of the answer's body, in bytes.
    pub(crate) fn rest(&mut self) -> u64 {
        // A connection that is reset has ended as well.
        let mut count = 0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = self.stream.read(&mut buffer) {
            count += read as u64;
        }
        count
    }
}
