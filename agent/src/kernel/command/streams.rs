//! The standard streams of a command: pipes, or a terminal of the session's own (pty(7)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{AT_FDCWD, FcntlArg, OFlag, fcntl, openat};
use nix::poll::PollFlags;
use nix::sys::stat::Mode;
use nix::unistd::pipe2;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vivarium_protocol::discard;
use vivarium_protocol::message::{Stream, WindowSize};

use crate::kernel::launcher_client::is_retry;
use crate::kernel::output::Output;

/// How much is read at a time of what a terminal is to be written.
const CHUNK_BYTES: usize = 4096;

/// What a terminal reads as the end of input: EOF of termios(3).
const END_OF_INPUT: u8 = 4;

/// Where its standard input comes from.
pub(super) enum Source {
    Bytes(Vec<u8>),
    Pipe(OwnedFd),
}

#[derive(Debug)]
pub(crate) struct Streams {
    /// Standard output and standard error; of a terminal the first alone.
    pub(crate) outputs: Vec<Output>,
    input: Option<Input>,
    /// Our end of the terminal.
    terminal: Option<File>,
}

/// What it has not read yet of its standard input.
#[derive(Debug)]
struct Input {
    to: File,
    bytes: Vec<u8>,
    written: usize,
    /// What comes after the bytes.
    source: Option<File>,
}

/// A terminal that nobody has yet.
pub(super) struct Terminal {
    own: OwnedFd,
    pub(super) peer: OwnedFd,
}

impl Terminal {
    pub(super) fn open(size: WindowSize) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        // Not posix_openpt(3), which on musl makes a call that the agent has no need of otherwise.
        let own = openat(AT_FDCWD, "/dev/ptmx", flags, Mode::empty())?;
        unlockpt(&own)?;
        // By the terminal itself and not by a path, which tenant code could have changed.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let peer = ioctl_tiocgptpeer(&own, flags)?;
        tcsetwinsize(&own, winsize(size))?;
        Ok(Self { own, peer })
    }
}

const fn winsize(size: WindowSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Streams {
    /// Pipes; with the command's ends of them.
    pub(super) fn of_pipes(
        source: Source,
        output_cap: Option<u64>,
    ) -> io::Result<([OwnedFd; 3], Self)> {
        let channel = || pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from);
        let (stdin_end, input) = match source {
            Source::Pipe(pipe) => (pipe, None),
            Source::Bytes(bytes) => {
                let (stdin_end, input) = channel()?;
                set_nonblocking(input.as_fd())?;
                (stdin_end, (!bytes.is_empty()).then(|| Input::new(input.into(), bytes, None)))
            }
        };
        let (stdout, stdout_end) = channel()?;
        let (stderr, stderr_end) = channel()?;
        let outputs = vec![
            Output::new(stdout, Stream::Stdout, output_cap)?,
            Output::new(stderr, Stream::Stderr, output_cap)?,
        ];
        Ok(([stdin_end, stdout_end, stderr_end], Self { outputs, input, terminal: None }))
    }

    pub(super) fn of_terminal(terminal: Terminal, source: Source) -> io::Result<Self> {
        let Terminal { own, .. } = terminal;
        set_nonblocking(own.as_fd())?;
        let own = File::from(own);
        let (bytes, pipe) = match source {
            Source::Bytes(bytes) => (bytes, None),
            Source::Pipe(pipe) => (Vec::new(), Some(pipe.into())),
        };
        let has_input = pipe.is_some() || !bytes.is_empty();
        let to = own.try_clone()?;
        Ok(Self {
            outputs: vec![Output::of_terminal(own.try_clone()?.into())?],
            input: has_input.then(|| Input::new(to, bytes, pipe)),
            terminal: Some(own),
        })
    }

    /// What to poll for the input to go on, and how.
    pub(super) fn input(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let input = self.input.as_ref()?;
        match &input.source {
            Some(source) if input.rest().is_empty() => Some((source.as_fd(), PollFlags::POLLIN)),
            _ => Some((input.to.as_fd(), PollFlags::POLLOUT)),
        }
    }

    /// Passes on some of the input. At its end a terminal is told so; a pipe is closed.
    pub(super) fn move_input(&mut self) {
        let Some(input) = &mut self.input else { return };
        if input.rest().is_empty() && input.read() == Progress::Over {
            if let Some(mut terminal) = self.terminal.as_ref() {
                discard(terminal.write_all(&[END_OF_INPUT]), "nobody reads it any more");
            }
            self.input = None;
            return;
        }
        let has_more = input.source.is_some();
        match input.write() {
            Progress::Over if !has_more => self.input = None,
            Progress::Broken => self.input = None,
            _ => {}
        }
    }

    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    pub(super) fn resize(&self, size: WindowSize) {
        if let Some(terminal) = &self.terminal {
            discard(tcsetwinsize(terminal, winsize(size)), "it may be gone");
        }
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Some,
    /// There is no more.
    Over,
    /// Nobody reads it any more.
    Broken,
}

impl Input {
    const fn new(to: File, bytes: Vec<u8>, source: Option<File>) -> Self {
        Self { to, bytes, written: 0, source }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Reads the next bytes from where they come.
    fn read(&mut self) -> Progress {
        let Some(source) = &mut self.source else { return Progress::Some };
        let mut bytes = vec![0; CHUNK_BYTES];
        match source.read(&mut bytes) {
            Ok(0) => Progress::Over,
            Ok(count) => {
                bytes.truncate(count);
                (self.bytes, self.written) = (bytes, 0);
                Progress::Some
            }
            Err(error) if is_retry(&error) => Progress::Some,
            Err(_) => Progress::Over,
        }
    }

    fn write(&mut self) -> Progress {
        loop {
            let rest = self.bytes.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                return Progress::Over;
            }
            match self.to.write(rest) {
                Ok(count) => self.written = self.written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_retry(&error) => return Progress::Some,
                Err(_) => return Progress::Broken,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: usize) -> (Input, File) {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        (Input::new(writer.into(), vec![7; bytes], None), reader.into())
    }

    #[test]
    fn input_that_is_not_read_stays_queued() {
        let (mut input, mut reader) = input(1 << 20);
        assert_eq!(input.write(), Progress::Some);
        let mut seen = 0;
        let mut buffer = vec![0; 64 << 10];
        loop {
            seen += reader.read(&mut buffer).unwrap();
            if input.write() == Progress::Over {
                break;
            }
        }
        drop(input);
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            seen += count;
        }
        assert_eq!(seen, 1 << 20);
    }

    #[test]
    fn input_for_a_closed_pipe_is_dropped() {
        let (mut input, reader) = input(1 << 20);
        drop(reader);
        assert_eq!(input.write(), Progress::Broken);
    }
}
