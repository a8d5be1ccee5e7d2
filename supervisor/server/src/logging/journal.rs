//! The journal's own form of a log entry (`JOURNAL_NATIVE_PROTOCOL` of systemd): fields in a
//! datagram. A socket that journald does not read makes only the writing thread wait.

use std::fmt::Debug;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::lines::Lines;

pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Sends entries, each in a datagram.
#[derive(Debug)]
pub(super) struct Sender {
    socket: UnixDatagram,
    /// Resolved anew for each entry, since journald may restart.
    path: PathBuf,
}

impl Sender {
    /// # Errors
    /// As `connect(2)`, if nobody takes entries there.
    pub(super) fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        UnixDatagram::unbound()?.connect(&path)?;
        Ok(Self { socket: UnixDatagram::unbound()?, path })
    }
}

impl Write for Sender {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.socket.send_to(entry, &self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes events as entries.
#[derive(Debug)]
pub(super) struct Journal(pub(super) Lines);

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let about = event.metadata();
        let mut entry = Entry::new(*about.level());
        entry.put("TARGET", about.target());
        if let Some(file) = about.file() {
            entry.put("CODE_FILE", file);
        }
        if let Some(line) = about.line() {
            entry.put("CODE_LINE", &line.to_string());
        }
        event.record(&mut entry);
        self.0.push(&entry.0);
    }
}

struct Entry(Vec<u8>);

impl Entry {
    fn new(level: Level) -> Self {
        // As syslog(3) numbers them, from `err` on.
        let priority = match level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "5",
            Level::DEBUG => "6",
            Level::TRACE => "7",
        };
        let mut entry = Self(Vec::with_capacity(512));
        entry.put("PRIORITY", priority);
        entry.put("SYSLOG_IDENTIFIER", "vivarium");
        entry
    }

    fn put(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'\n');
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            return self.put("MESSAGE", value);
        }
        let name = field.name().replace(|other: char| !other.is_ascii_alphanumeric(), "_");
        self.put(&format!("F_{}", name.to_ascii_uppercase()), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// An entry with this message alone.
pub(super) fn warning(message: &str) -> Vec<u8> {
    let mut entry = Entry::new(Level::WARN);
    entry.put("MESSAGE", message);
    entry.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn start(path: PathBuf) -> Lines {
        let note = |dropped: u64| warning(&format!("{dropped} were dropped"));
        Lines::start(Sender::new(path).unwrap(), note).unwrap()
    }

    /// The fields of one entry, as journald finds them.
    fn fields(mut entry: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !entry.is_empty() {
            let end = entry.iter().position(|byte| *byte == b'\n').unwrap();
            let (name, rest) = (entry.get(..end).unwrap(), entry.get(end + 1..).unwrap());
            let (length, rest) = rest.split_first_chunk::<8>().unwrap();
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
            let (value, rest) = rest.split_at(length);
            entry = rest.strip_prefix(b"\n").unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.push((text(name), text(value)));
        }
        fields
    }

    #[test]
    fn an_entry_has_its_fields() {
        let dir = tempfile::tempdir().unwrap();
        let journald = UnixDatagram::bind(dir.path().join("socket")).unwrap();
        let subscriber =
            tracing_subscriber::registry().with(Journal(start(dir.path().join("socket"))));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(session = "s1", exit_code = 3, "two\nlines\nPRIORITY=0");
        });
        let mut datagram = [0; 4096];
        let length = journald.recv(&mut datagram).unwrap();
        let fields = fields(datagram.get(..length).unwrap());
        let of = |wanted: &str| {
            let mut found = fields.iter().filter(|(name, _)| name == wanted);
            let value = found.next().map(|(_, value)| value.as_str());
            assert!(found.next().is_none(), "{fields:?}");
            value
        };
        assert_eq!(of("MESSAGE"), Some("two\nlines\nPRIORITY=0"));
        assert_eq!(of("PRIORITY"), Some("4"));
        assert_eq!((of("F_SESSION"), of("F_EXIT_CODE")), (Some("s1"), Some("3")));
        assert_eq!(of("SYSLOG_IDENTIFIER"), Some("vivarium"));
        assert!(of("TARGET").is_some() && of("CODE_FILE").is_some() && of("CODE_LINE").is_some());
    }

    #[test]
    fn blocked_journald_does_not_block_logging() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journald = UnixDatagram::bind(&path).unwrap();
        // The control: its socket is full after some entries, and who sends one more would wait.
        let sender = Sender::new(&path).unwrap();
        sender.socket.set_nonblocking(true).unwrap();
        let full = (0..100_000).find_map(|_| sender.socket.send_to(b"x", &path).err());
        assert_eq!(full.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));

        let lines = start(path);
        let subscriber = tracing_subscriber::registry().with(Journal(lines.clone()));
        let text = "x".repeat(1024);
        tracing::subscriber::with_default(subscriber, || {
            (0..3000).for_each(|_| tracing::info!(text, "nobody reads this"));
        });
        let dropped = lines.dropped();
        assert!(dropped > 1000, "{dropped}");
        let mut datagram = [0; 4096];
        journald.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut noted = 0;
        while noted < dropped {
            let length = journald.recv(&mut datagram).unwrap();
            // What filled the socket is no entry.
            let Some(entry) = datagram.get(..length).filter(|entry| entry.len() > 1) else {
                continue;
            };
            let message = fields(entry).into_iter().find(|(name, _)| name == "MESSAGE").unwrap().1;
            let note = message.strip_suffix(" were dropped");
            noted += note.map_or(0, |number| number.parse::<u64>().unwrap());
        }
        assert_eq!(noted, dropped);
    }

    #[test]
    fn missing_journal_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = Sender::new(dir.path().join("socket")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
