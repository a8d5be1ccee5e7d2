//! An index of the test's on the host's loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Serves the wheels of a directory: `/simple/<project>/`, and `/wrong/<project>/`, where the hashes are others.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    asked: Asked,
}

/// The paths that were asked for, and how often the login was missing or wrong.
#[derive(Clone, Default)]
struct Asked {
    paths: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<usize>>,
}

/// What an index of somebody's own has: a certificate, and a value of `Authorization` that it asks for.
pub(crate) struct Private {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) authorization: String,
}

impl Upstream {
    pub(crate) fn start(wheels: &Path) -> Self {
        Self::serve(wheels, None)
    }

    pub(crate) fn private(wheels: &Path, private: Private) -> Self {
        Self::serve(wheels, Some(private))
    }

    fn serve(wheels: &Path, private: Option<Private>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Asked::default();
        let (kept, wheels, private) = (asked.clone(), wheels.to_owned(), Arc::new(private));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.unwrap(), kept.clone());
                let (wheels, private) = (wheels.clone(), private.clone());
                thread::spawn(move || match &*private {
                    None => answer(stream, &wheels, &kept, None),
                    Some(Private { tls, authorization }) => {
                        let connection = ServerConnection::new(tls.clone()).unwrap();
                        let mut stream = StreamOwned::new(connection, stream);
                        answer(&mut stream, &wheels, &kept, Some(authorization));
                        stream.conn.send_close_notify();
                        stream.flush().unwrap_or_default();
                    }
                });
            }
        });
        Self { port, asked }
    }

    /// What goes into `[packages]`.
    pub(crate) fn line(&self, index: &str) -> String {
        format!("index_url = \"http://127.0.0.1:{}/{index}\"", self.port)
    }

    /// How often it was asked for a file of this name.
    pub(crate) fn asked_for(&self, file: &str) -> usize {
        self.asked.paths.lock().unwrap().iter().filter(|path| path.ends_with(file)).count()
    }

    /// How often it was asked without its login.
    pub(crate) fn refused(&self) -> usize {
        *self.asked.refused.lock().unwrap()
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> String {
    let said = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(said.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

fn answer(
    mut stream: impl Read + Write,
    wheels: &Path,
    asked: &Asked,
    authorization: Option<&String>,
) {
    let mut buffer = vec![0; 16 << 10];
    let len = stream.read(&mut buffer).unwrap_or(0);
    let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
    let Some(path) = request.split(' ').nth(1) else { return };
    asked.paths.lock().unwrap().push(path.to_owned());
    let has_login = |header: &String| request.lines().any(|line| line.ends_with(header.as_str()));
    if !authorization.is_none_or(has_login) {
        *asked.refused.lock().unwrap() += 1;
        let head = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(head.as_bytes()).unwrap_or_default();
    }
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let body = match parts[..] {
        ["files", name] => fs::read(wheels.join(name)).ok(),
        [index, project] => page(wheels, index, project).map(String::into_bytes),
        _ => None,
    };
    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let body = body.unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The gate may hang up.
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap_or_default();
}

/// A project's page; none if there is no file of its.
fn page(wheels: &Path, index: &str, project: &str) -> Option<String> {
    let files: Vec<PathBuf> =
        fs::read_dir(wheels).unwrap().map(|file| file.unwrap().path()).collect();
    let links: Vec<String> = files
        .iter()
        .filter(|file| {
            file.file_name().unwrap().to_str().unwrap().starts_with(&format!("{project}-"))
        })
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            let hash = if index == "wrong" { "0".repeat(64) } else { sha256(file) };
            format!("<a href=\"/files/{name}#sha256={hash}\">{name}</a>")
        })
        .collect();
    (!links.is_empty()).then(|| links.concat())
}
