//! The directories that files are read and written beneath.

use std::path::{Path, PathBuf};

use vivarium_protocol::message::InputFile;
use vivarium_protocol::places::{Place, Root, TMP};

use super::{FileError, Workdir};

#[derive(Debug)]
pub(crate) struct Roots {
    pub(crate) workdir: Workdir,
    /// `None` where it is the host's.
    tmp: Option<Workdir>,
    /// The workdir's path in requests.
    name: PathBuf,
}

impl Roots {
    pub(crate) fn new(workdir: Workdir, name: &Path) -> Self {
        Self { workdir, tmp: None, name: name.to_owned() }
    }

    /// Adds the session's own /tmp, open as `tmp`.
    pub(crate) fn with_tmp(mut self, tmp: Workdir) -> Self {
        self.tmp = Some(Workdir { prefix: TMP, ..tmp });
        self
    }

    /// The root that a path of a request lies beneath, and the path relative to it.
    pub(crate) fn find<'a>(&self, path: &'a str) -> Result<(Root, &'a str), FileError> {
        let place = Place::of(path, &self.name).ok_or(FileError::Elsewhere)?;
        self.get(place.root).map(|_| (place.root, place.path))
    }

    /// # Errors
    /// [`FileError::NoTmp`]
    pub(crate) fn get(&self, root: Root) -> Result<&Workdir, FileError> {
        match root {
            Root::Workdir => Ok(&self.workdir),
            Root::Tmp => self.tmp.as_ref().ok_or(FileError::NoTmp),
        }
    }

    /// Writes a file of an execution's. Returns its path if it lies in the workdir.
    ///
    /// # Errors
    /// [`FileError`]; nothing has then been replaced.
    pub(crate) fn put<'a>(&self, file: &'a InputFile) -> Result<Option<&'a Path>, FileError> {
        let (root, path) = self.find(&file.name)?;
        self.get(root)?.put(path, &file.data)?;
        Ok((root == Root::Workdir).then_some(Path::new(path)))
    }
}
