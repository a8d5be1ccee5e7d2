//! Operations on a session's files.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::message::{FileOperation, FileProblem, FileReply, FromAgent, ToAgent};
use vivarium_protocol::stream::send_with;

use super::Session;

impl Session {
    /// Begins one; with our end of its socket.
    pub(crate) fn begin(&mut self, operation: FileOperation) -> (u64, UnixStream) {
        let transfer = self.next_transfer;
        self.next_transfer += 1;
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let has_content =
            !matches!(operation, FileOperation::List { .. } | FileOperation::Delete { .. });
        let fds = if has_content { vec![theirs] } else { vec![] };
        let message = ToAgent::File { transfer, operation };
        send_with(&self.socket, &message, &fds, MAX_FRAME_BYTES).unwrap();
        (transfer, ours)
    }

    /// What came of it.
    pub(crate) fn done(&mut self, transfer: u64) -> Result<FileReply, FileProblem> {
        loop {
            if let Some(at) = self.done.iter().position(|(number, _)| *number == transfer) {
                return self.done.swap_remove(at).1;
            }
            if let Some(FromAgent::FileDone { transfer, reply }) = self.recv() {
                self.done.push((transfer, reply));
            }
        }
    }

    /// Whether it is known already what came of it.
    pub(crate) fn has_done(&self, transfer: u64) -> bool {
        self.done.iter().any(|(number, _)| *number == transfer)
    }

    pub(crate) fn operate(&mut self, operation: FileOperation) -> Result<FileReply, FileProblem> {
        let (transfer, _socket) = self.begin(operation);
        self.done(transfer)
    }

    pub(crate) fn read_file(&mut self, path: &str) -> Result<Vec<u8>, FileProblem> {
        let operation = FileOperation::Read { path: path.to_owned(), offset: 0, length: None };
        let (transfer, mut socket) = self.begin(operation);
        self.done(transfer)?;
        let mut content = Vec::new();
        socket.read_to_end(&mut content).unwrap();
        Ok(content)
    }

    pub(crate) fn write_file(
        &mut self,
        path: &str,
        content: &[u8],
    ) -> Result<FileReply, FileProblem> {
        let (transfer, socket) = self.begin(FileOperation::Write { path: path.to_owned() });
        send_content(socket, content);
        self.done(transfer)
    }

    pub(crate) fn list(&mut self, path: &str) -> Vec<String> {
        let (path, after) = (path.to_owned(), String::new());
        let operation = FileOperation::List { path, recursive: true, after, limit: 1000 };
        let FileReply::Listed { entries, more: false } = self.operate(operation).unwrap() else {
            panic!("not listed");
        };
        entries.into_iter().map(|entry| entry.path).collect()
    }
}

/// Sends content, from a thread of its own, as the agent may refuse it at any point.
pub(crate) fn send_content(mut socket: UnixStream, content: &[u8]) {
    let content = content.to_owned();
    std::thread::spawn(move || {
        for chunk in content.chunks(1 << 20).chain([&[][..]]) {
            let len = u32::try_from(chunk.len()).unwrap().to_le_bytes();
            if socket.write_all(&len).and_then(|()| socket.write_all(chunk)).is_err() {
                return;
            }
        }
    });
}
