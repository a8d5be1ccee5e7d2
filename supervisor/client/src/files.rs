//! Files of a session.

use hyper::Method;
use hyper::header::ACCEPT;
use tokio::io::AsyncRead;
use vivarium_api_types::{
    FileChange, FileEventInfo, FileInfo, FileList, FilePage, FilesWritten, WatchParams,
};
use vivarium_protocol::message::FileEventKind;

use super::execution::EVENT_STREAM;
use super::{ApiRequest, ApiResponse, Client, ClientError, Decoder, SseError, SseEvent, path};

/// The largest event of a watch: two paths, each of 4096 bytes, as JSON.
const MAX_EVENT_BYTES: usize = 64 << 10;

/// What is sent to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// A file.
    File,
    /// A tar archive, unpacked into a directory.
    Archive,
}

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// One page of a directory's entries.
    pub async fn list_files(
        &mut self,
        session: &str,
        page: &FilePage,
    ) -> Result<FileList, ClientError> {
        let mut at = path::file(session, "");
        path::add_page(&mut at, page);
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// What is at a path.
    pub async fn stat_file(&mut self, session: &str, name: &str) -> Result<FileInfo, ClientError> {
        let mut at = path::file(session, name);
        path::add(&mut at, "info", true);
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// The content of a file, or of a directory as a tar archive.
    pub async fn read_file(
        &mut self,
        session: &str,
        name: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.open(ApiRequest::new(Method::GET, &path::file(session, name))).await
    }

    /// Uploads what `from` reads; `length_bytes` if that is known.
    pub async fn write_file(
        &mut self,
        session: &str,
        name: &str,
        kind: UploadKind,
        from: impl AsyncRead + Send + 'static,
        length_bytes: Option<u64>,
    ) -> Result<FilesWritten, ClientError> {
        let mut at = path::file(session, name);
        let content_type = match kind {
            UploadKind::File => "application/octet-stream",
            UploadKind::Archive => {
                path::add(&mut at, "unpack", true);
                "application/x-tar"
            }
        };
        let request = ApiRequest::new(Method::PUT, &at).stream(content_type, from, length_bytes);
        self.call(request).await
    }

    /// Makes a directory, and those it lies in.
    pub async fn make_directory(
        &mut self,
        session: &str,
        name: &str,
    ) -> Result<FilesWritten, ClientError> {
        let mut at = path::file(session, name);
        path::add(&mut at, "directory", true);
        self.call(ApiRequest::new(Method::PUT, &at)).await
    }

    /// Moves a file, directory or link, or changes its permissions; returns what it is then.
    pub async fn change_file(
        &mut self,
        session: &str,
        name: &str,
        change: &FileChange,
    ) -> Result<FileInfo, ClientError> {
        self.json(Method::PATCH, &path::file(session, name), Some(change)).await
    }

    /// Deletes a file, or a directory with everything in it.
    pub async fn delete_file(&mut self, session: &str, name: &str) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::file(session, name))).await
    }

    /// Watches a directory.
    pub async fn watch_files(
        &mut self,
        session: &str,
        params: &WatchParams,
    ) -> Result<FileWatch, ClientError> {
        let mut at = format!("{}/watch", path::session(session));
        path::add(&mut at, "path", &params.path);
        path::add(&mut at, "recursive", params.recursive);
        let request = ApiRequest::new(Method::GET, &at).header(ACCEPT, EVENT_STREAM);
        Ok(FileWatch {
            response: self.open(request).await?,
            decoder: Decoder::new(MAX_EVENT_BYTES),
        })
    }
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileWatchEvent {
    /// Changes from now on are events. Sent first.
    Ready,
    /// A file, directory or link came, went, moved or was written.
    Change(FileEventKind, FileEventInfo),
    /// Events were lost, or not everything is watched: list the directory.
    Overflow,
}

/// Changes below a directory.
#[derive(Debug)]
pub struct FileWatch {
    response: ApiResponse,
    decoder: Decoder,
}

impl FileWatch {
    /// The next event; none if the session or the directory is gone.
    ///
    /// # Errors
    /// [`ClientError::Body`] if the connection breaks, [`ClientError::Events`] if an event cannot be
    /// read.
    pub async fn next(&mut self) -> Result<Option<FileWatchEvent>, ClientError> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                if let Some(event) = read(&event).map_err(|error| self.unreadable(error))? {
                    return Ok(Some(event));
                }
            }
            let Some(chunk) = self.response.chunk().await? else { return Ok(None) };
            self.decoder.feed(&chunk).map_err(|error| self.unreadable(error))?;
        }
    }

    fn unreadable(&self, source: SseError) -> ClientError {
        ClientError::Events { url: self.response.url.clone(), source }
    }
}

/// The event; none if its type is newer than this version.
fn read(event: &SseEvent) -> Result<Option<FileWatchEvent>, SseError> {
    let kind = match event.event.as_str() {
        "ready" => return Ok(Some(FileWatchEvent::Ready)),
        "overflow" => return Ok(Some(FileWatchEvent::Overflow)),
        "created" => FileEventKind::Created,
        "modified" => FileEventKind::Modified,
        "deleted" => FileEventKind::Deleted,
        "moved" => FileEventKind::Moved,
        _ => return Ok(None),
    };
    Ok(Some(FileWatchEvent::Change(kind, super::event::data(event)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_read_and_newer_types_are_skipped() {
        let of = |name: &str, data: &str| {
            read(&SseEvent { event: name.into(), data: data.into(), id: String::new() })
        };
        assert_eq!(of("ready", "{}").unwrap(), Some(FileWatchEvent::Ready));
        assert_eq!(of("overflow", "{}").unwrap(), Some(FileWatchEvent::Overflow));
        let moved = of("moved", r#"{"path": "b", "from": "a", "directory": true}"#).unwrap();
        let Some(FileWatchEvent::Change(FileEventKind::Moved, info)) = moved else {
            panic!("{moved:?}")
        };
        assert_eq!(
            (info.path.as_str(), info.from.as_deref(), info.directory),
            ("b", Some("a"), true)
        );
        for kind in ["created", "modified", "deleted"] {
            let event = of(kind, r#"{"path": "a", "directory": false}"#).unwrap();
            assert!(matches!(event, Some(FileWatchEvent::Change(..))), "{event:?}");
        }
        assert_eq!(of("chmod", "{}").unwrap(), None);
        assert!(of("created", "{}").is_err());
    }
}
