//! An index of the test's on the host's loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// Serves the wheels of a directory: `/simple/<project>/`, and `/wrong/<project>/`, where the hashes are others.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub(crate) fn start(wheels: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, wheels) = (asked.clone(), wheels.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, wheels) = (kept.clone(), wheels.clone());
                thread::spawn(move || serve(stream.unwrap(), &wheels, &kept));
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
        self.asked.lock().unwrap().iter().filter(|path| path.ends_with(file)).count()
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> String {
    let said = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(said.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

fn serve(mut stream: TcpStream, wheels: &Path, asked: &Mutex<Vec<String>>) {
    let mut buffer = vec![0; 16 << 10];
    let len = stream.read(&mut buffer).unwrap_or(0);
    let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
    let Some(path) = request.split(' ').nth(1) else { return };
    asked.lock().unwrap().push(path.to_owned());
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
