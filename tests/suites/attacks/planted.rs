//! What the host has that a session is not to see: planted, so that a control can find it.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::thread;

/// What services of the host say to whom they let connect.
pub(crate) const GREETING: &str = "from the host";

/// Files of the host that its permissions would let anybody read, and one to write.
pub(crate) struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    /// Plants them.
    pub(crate) fn plant() -> Self {
        // Not below /tmp, which is the session's own there.
        let dir = tempfile::Builder::new().prefix("vt").tempdir_in("/var/tmp").unwrap();
        let files = Self { dir };
        for (name, mode) in [("secret", 0o644), ("writable", 0o666)] {
            let path = files.path(name);
            fs::write(&path, "of the host").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(files.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        files
    }

    /// Where one is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A call of a function of the probe, with the path of one.
    pub(crate) fn attack(&self, function: &str, name: &str) -> String {
        format!("{function}('{}')", self.path(name).display())
    }

    /// Where they are, as a line of configuration.
    pub(crate) fn read_paths(&self) -> String {
        format!("read_paths = ['{}']", self.dir.path().display())
    }
}

/// Greets whoever connects to TCP on the host's loopback; the port.
pub(crate) fn tcp_service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            greet(&mut stream.unwrap());
        }
    });
    port
}

/// Greets whoever connects to an abstract Unix socket of this name.
pub(crate) fn abstract_service(name: &str) {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    serve(UnixListener::bind_addr(&address).unwrap());
}

/// Greets whoever connects to a Unix socket at this path, open to everybody.
pub(crate) fn path_service(path: &std::path::Path) {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    serve(listener);
}

fn serve(listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            greet(&mut stream.unwrap());
        }
    });
}

fn greet(stream: &mut impl Write) {
    // Who connects may have gone again.
    let _gone = stream.write_all(GREETING.as_bytes()).is_err();
}
