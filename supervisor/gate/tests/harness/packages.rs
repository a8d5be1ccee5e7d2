//! An index upstream that the test plays, and a gate with a cache of packages.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use vivarium_egress::{Decided, FromGate, Rules};
use vivarium_packages::hash::Hash;
use vivarium_packages::{HOST, Source, Url};

use super::{Gate, rules};

pub(crate) const WHEEL: &str = "foo-1.0-py3-none-any.whl";
pub(crate) const CONTENT: &[u8] = b"what a wheel has";

/// Writes a response to a request for this path, as it likes.
type Respond = dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

/// An index upstream, and the paths that it was asked for.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub(crate) fn start(
        respond: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, respond): (Arc<Mutex<Vec<String>>>, Arc<Respond>) =
            (Arc::default(), Arc::new(respond));
        let kept = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, respond, mut stream) = (kept.clone(), respond.clone(), stream.unwrap());
                thread::spawn(move || {
                    let mut buffer = vec![0; 16 << 10];
                    let len = stream.read(&mut buffer).unwrap_or(0);
                    let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
                    let Some(path) = request.split(' ').nth(1) else { return };
                    kept.lock().unwrap().push(path.to_owned());
                    // The gate may hang up.
                    respond(path, &mut stream).unwrap_or_default();
                });
            }
        });
        Self { port, asked }
    }

    /// One with one wheel of this content, for which its page has this fragment.
    pub(crate) fn with_wheel(content: &'static [u8], fragment: String) -> Self {
        Self::start(move |path, stream| match path {
            "/simple/foo/" => page(stream, &format!("<a href=\"/files/{WHEEL}{fragment}\">x</a>")),
            "/simple/bar/" => page(stream, "<a href=\"/files/bar-1.0.tar.gz\">x</a>"),
            _ if path.starts_with("/files/") => answer(stream, "", content),
            _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        })
    }

    pub(crate) fn good() -> Self {
        Self::with_wheel(CONTENT, format!("#{}", Hash::sha256(CONTENT)))
    }

    pub(crate) fn source(&self) -> Source {
        let url = format!("http://index.example:{}/simple", self.port);
        Source { index_url: Some(Url::parse(&url).unwrap()), ..Source::default() }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn answer(stream: &mut TcpStream, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let len = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

/// Returns when the gate has hung up.
pub(crate) fn until_gone(stream: &mut TcpStream) {
    stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
}

pub(crate) fn page(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    answer(stream, "Content-Type: text/html\r\n", body.as_bytes())
}

/// A gate with a cache of so many MiB, and the directory of that.
pub(crate) struct Bed {
    pub(crate) gate: Gate,
    pub(crate) cache: TempDir,
}

impl Bed {
    pub(crate) fn start(max_cache_mb: u64, more: &[&str]) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let dir = cache.path().display().to_string();
        let mb = max_cache_mb.to_string();
        let arguments = [&["--cache-dir", &dir, "--max-cache-mb", &mb], more].concat();
        let gate = Gate::start_with("", &arguments);
        gate.zone.put("index.example", &[&["127.0.0.1"]]);
        Self { gate, cache }
    }

    /// A session of this tenant's, with this source.
    pub(crate) fn open(&self, tenant: &str, session: u64, source: Source) -> SocketAddr {
        let mut rules = rules(&[]);
        rules.packages = Some(source);
        // For what is quiet.
        rules.limits.idle = Duration::from_millis(300);
        self.open_with(tenant, session, &rules)
    }

    pub(crate) fn open_with(&self, tenant: &str, session: u64, rules: &Rules) -> SocketAddr {
        let (inside, opened) = self.gate.try_open_for(tenant, session, rules, None);
        assert_eq!(opened, FromGate::Opened { session });
        inside
    }

    /// The files in the cache, finished or not.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        let list = |dir: &Path| {
            fs::read_dir(dir).unwrap().map(|one| one.unwrap().path()).collect::<Vec<_>>()
        };
        let tenants = list(self.cache.path()).into_iter().filter(|path| path.is_dir());
        tenants.flat_map(|tenant| list(&tenant)).collect()
    }

    /// The next decision that is not about the index itself.
    pub(crate) fn next_upstream(&self) -> Decided {
        loop {
            let decided = self.gate.next_decided();
            if decided.destination != HOST {
                return decided;
            }
        }
    }
}
