//! The files of a session.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use vivarium_api_types::{FileInfo, FileList, FilePage};
use vivarium_client::UploadKind;
use vivarium_engine::{DEFAULT_TENANT, Engine};

use super::{Target, client};
use crate::exit::{Exit, Failure};

/// The entries of one page of a list.
const PAGE: u32 = 1000;

/// The size of a chunk that is sent to an engine in this process.
const CHUNK_BYTES: usize = 256 << 10;

impl Target {
    /// The entries of a directory, or of the whole tree below it.
    pub(crate) async fn list_files(
        &self,
        session: &str,
        dir: &str,
        is_recursive: bool,
    ) -> Result<Vec<FileInfo>, Failure> {
        let mut entries = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = FilePage {
                path: dir.to_owned(),
                recursive: is_recursive,
                after: after.take(),
                limit: PAGE,
            };
            let list = self.files_page(session, page).await?;
            entries.extend(list.entries);
            match list.next {
                Some(next) => after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    async fn files_page(&self, session: &str, page: FilePage) -> Result<FileList, Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.list_files(DEFAULT_TENANT, session, page).await?),
            Self::Daemon(remote) => Ok(client(remote).list_files(session, &page).await?),
        }
    }

    /// Copies a file of the session to `to`; returns its size in bytes.
    pub(crate) async fn get_file(
        &self,
        session: &str,
        name: &str,
        to: &mut (impl AsyncWrite + Unpin + ?Sized),
    ) -> Result<u64, Failure> {
        match self {
            Self::Embedded(engine) => copy(engine, session, name, to).await,
            Self::Daemon(remote) => {
                Ok(client(remote).read_file(session, name).await?.copy_to(to).await?)
            }
        }
    }

    /// Uploads `from` to the session; `length_bytes` if that is known.
    pub(crate) async fn put_file(
        &self,
        session: &str,
        name: &str,
        kind: UploadKind,
        from: impl AsyncRead + Send + Unpin + 'static,
        length_bytes: Option<u64>,
    ) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => send(engine, session, name, kind, from, length_bytes).await,
            Self::Daemon(remote) => {
                let sent = client(remote).write_file(session, name, kind, from, length_bytes).await;
                Ok(sent.map(drop)?)
            }
        }
    }
}

async fn copy(
    engine: &Engine,
    session: &str,
    name: &str,
    to: &mut (impl AsyncWrite + Unpin + ?Sized),
) -> Result<u64, Failure> {
    let mut reading = engine.read_file(DEFAULT_TENANT, session, name, 0, None).await?;
    let size_bytes = reading.length();
    while let Some(chunk) = reading.chunk().await {
        let chunk = chunk.map_err(|error| broken(name, &error))?;
        to.write_all(&chunk).await.map_err(|error| broken(name, &error))?;
    }
    to.flush().await.map_err(|error| broken(name, &error))?;
    Ok(size_bytes)
}

async fn send(
    engine: &Engine,
    session: &str,
    name: &str,
    kind: UploadKind,
    mut from: impl AsyncRead + Unpin,
    length_bytes: Option<u64>,
) -> Result<(), Failure> {
    let mut upload = match kind {
        UploadKind::File => engine.write_file(DEFAULT_TENANT, session, name, length_bytes).await?,
        UploadKind::Archive => engine.unpack_files(DEFAULT_TENANT, session, name).await?,
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).await.map_err(|error| broken(name, &error))?;
        let Some(data) = chunk.get(..count).filter(|data| !data.is_empty()) else { break };
        upload = upload.send(data).await?;
    }
    upload.finish().await?;
    Ok(())
}

fn broken(name: &str, error: &io::Error) -> Failure {
    Failure::says(Exit::Error, format!("{name}: {error}"))
}
