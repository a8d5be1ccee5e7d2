//! A blocking HTTP/1.1 client over TCP or a Unix socket, one request at a time on a connection
//! that is kept. Small enough to send what no well-behaved client would.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;

use crate::wait::DEADLINE;

/// Where a daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// On 127.0.0.1.
    Tcp(u16),
    /// On a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// As the command line's `--url` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(port) => format!("http://127.0.0.1:{port}"),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

trait Stream: Read + Write + Send {
    fn shut_down(&self, how: Shutdown) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl Stream for UnixStream {
    fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

/// One connection.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if there is none.
    #[must_use]
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {} {:?}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The body as JSON, of an answer that has to be of success.
    #[must_use]
    #[track_caller]
    pub fn expect_success(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert!((200..300).contains(&self.status), "{} {text}", self.status);
        self.json()
    }

    /// The problem (RFC 9457) of an answer that has to be one, with this status and code.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{text}");
        assert_eq!(problem["status"], status, "{text}");
        for member in ["type", "title", "detail"] {
            assert!(problem[member].is_string(), "{member} in {text}");
        }
        problem
    }
}

impl Client {
    /// Connects.
    #[must_use]
    pub fn connect(endpoint: &Endpoint) -> Self {
        Self::try_connect(endpoint).unwrap()
    }

    /// Connects, if somebody listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_connect(endpoint: &Endpoint) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match endpoint {
            Endpoint::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(DEADLINE))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                Box::new(stream)
            }
        };
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends nothing more, and can still receive.
    pub fn half_close(&self) {
        self.stream.get_ref().shut_down(Shutdown::Write).unwrap();
    }

    /// Sends these bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        // A server that refuses a body early may close before it has all of it: then the
        // answer tells, and if there is none, reading it does.
        let _closed = self.stream.get_mut().write_all(bytes).is_err();
    }

    /// Sends a request and reads the answer. A body goes with `Content-Type: application/json`
    /// unless `headers` say otherwise.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        self.ask(method, path, headers, body);
        self.receive().unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Sends a request as [`Self::send`] does, and reads nothing.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) {
        let has = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !has("host") {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            if !has("content-type") {
                head.push_str("Content-Type: application/json\r\n");
            }
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.send_raw(&bytes);
    }

    /// Sends JSON, if there is any, and reads the answer.
    pub fn json(&mut self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.send(method, path, &[], bytes.as_deref())
    }

    /// Reads an answer; `None` if the connection ends before there is one.
    pub fn receive(&mut self) -> Option<Response> {
        let mut response = self.receive_head()?;
        if response.header("transfer-encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk()?;
                if chunk.is_empty() {
                    break;
                }
                response.body.extend(chunk);
            }
        } else if let Some(length) = response.header("content-length") {
            response.body = self.exactly(length.parse().ok()?)?;
        }
        Some(response)
    }

    /// Reads an answer without its body.
    pub fn receive_head(&mut self) -> Option<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Response { status, headers, body: Vec::new() })
    }

    /// Reads the next chunk of a body; the last has nothing in it.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(self.line()?.trim(), 16).ok()?;
        let chunk = self.exactly(length)?;
        self.line()?;
        Some(chunk)
    }

    /// Reads so many bytes.
    pub fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }
}
