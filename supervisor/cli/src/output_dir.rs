//! The folder that images, displays and output files of an execution are written to.
//!
//! Must never replace an existing file, nor write outside the folder, whatever the names and media
//! types are: numbers are counted up until one is free.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, lchown};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::unistd::{Uid, User};
use vivarium_api_types::{DisplayEvent, MimeBundle, OutputFile};
use vivarium_protocol::outcome::DisplayKind;

use super::exit::{Exit, Failure};

/// Media types and their file name extensions, the best one first.
const MEDIA_TYPES: [(&str, &str); 10] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("application/pdf", "pdf"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/latex", "tex"),
    ("application/json", "json"),
];

/// The names that are tried before a folder counts as full.
const MAX_NUMBER: u32 = 1_000_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum OutputDirError {
    #[error("cannot write {path}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{name} is not in base64")]
    Encoding { name: String },
    #[error("{name:?} is no name within a folder")]
    Name { name: String },
    #[error("{name}: {why}")]
    Missing { name: String, why: String },
}

#[derive(Debug)]
pub(super) struct OutputDir {
    path: PathBuf,
    /// Whether this process created it.
    is_new: bool,
    /// The last number of each kind of file.
    numbers: HashMap<String, u32>,
    /// The files of displays that may be updated, by display id.
    displays: HashMap<String, PathBuf>,
}

impl OutputDir {
    /// Creates the folder if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let unmade =
            |error| Failure::says(Exit::Usage, format!("cannot make {}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(unmade)?;
        }
        let is_new = match fs::create_dir(path) {
            Ok(()) => true,
            Err(_) if path.is_dir() => false,
            Err(error) => return Err(unmade(error)),
        };
        let path = std::path::absolute(path).map_err(unmade)?;
        Ok(Self { path, is_new, numbers: HashMap::new(), displays: HashMap::new() })
    }

    /// Gives a folder that this process created to the user that root becomes. An existing folder
    /// keeps its owner.
    pub(super) fn give_to(&self, user: &User) -> Result<(), Failure> {
        if !self.is_new {
            return Ok(());
        }
        let given = lchown(&self.path, Some(user.uid.as_raw()), Some(user.gid.as_raw()));
        given.map_err(|error| Failure::new(Exit::Error, &error))
    }

    /// Fails early if the folder is not writable.
    pub(super) fn check(&self) -> Result<(), Failure> {
        tempfile::tempfile_in(&self.path).map(drop).map_err(|error| {
            let path = self.path.display();
            let user = Uid::effective();
            let why = format!("cannot write to {path} as user id {user}: {error}");
            Failure::says(Exit::Usage, why)
        })
    }

    /// Writes a display, if it is more than text; returns the path.
    pub(super) fn write_display(
        &mut self,
        shown: &DisplayEvent<'_>,
    ) -> Result<Option<PathBuf>, OutputDirError> {
        let stem = match shown.kind {
            DisplayKind::Clear => return Ok(None),
            DisplayKind::Image => "image",
            DisplayKind::VideoFrame => "frame",
            DisplayKind::Display | DisplayKind::Update => "display",
        };
        let Some((bytes, extension)) = best_representation(&shown.mime)? else { return Ok(None) };
        // An update replaces its display's file, which is ours.
        if let (DisplayKind::Update, Some(id)) = (shown.kind, &shown.id)
            && let Some(path) = self.displays.get(&**id)
            && path.extension().is_some_and(|before| before == extension)
        {
            let written = fs::write(path, &bytes);
            written.map_err(|source| OutputDirError::Write { path: path.clone(), source })?;
            return Ok(None);
        }
        let path = self.write_numbered(stem, extension, &bytes)?;
        if let Some(id) = &shown.id {
            self.displays.insert(id.to_string(), path.clone());
        }
        Ok(Some(path))
    }

    /// Writes the best representation of a value, if it is more than text; returns the path.
    pub(super) fn write_value(
        &mut self,
        mime: &MimeBundle,
    ) -> Result<Option<PathBuf>, OutputDirError> {
        let Some((bytes, extension)) = best_representation(mime)? else { return Ok(None) };
        self.write_numbered("result", extension, &bytes).map(Some)
    }

    /// Writes a requested output file, under the name by which it was requested.
    pub(super) fn write_output(&mut self, file: &OutputFile) -> Result<PathBuf, OutputDirError> {
        let OutputFile { name, text, data, error, .. } = file;
        let bytes = match (text, data, error) {
            (_, _, Some(why)) => {
                return Err(OutputDirError::Missing { name: name.clone(), why: why.clone() });
            }
            (Some(text), _, _) => text.clone().into_bytes(),
            (None, Some(data), _) => decode(name, data)?,
            (None, None, None) => Vec::new(),
        };
        let relative = Path::new(name);
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let refused = || OutputDirError::Name { name: name.clone() };
        if !relative.components().all(plain) {
            return Err(refused());
        }
        let file_name = relative.file_name().and_then(|name| name.to_str()).ok_or_else(refused)?;
        let parent = self.path.join(relative.parent().unwrap_or(Path::new("")));
        fs::create_dir_all(&parent)
            .map_err(|source| OutputDirError::Write { path: parent.clone(), source })?;
        if let Some(path) = create_file(&parent.join(file_name), &bytes)? {
            return Ok(path);
        }
        let (stem, extension) = match file_name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
            _ => (file_name, String::new()),
        };
        for number in 2..MAX_NUMBER {
            let path = parent.join(format!("{stem}-{number}{extension}"));
            if let Some(path) = create_file(&path, &bytes)? {
                return Ok(path);
            }
        }
        Err(full(parent))
    }

    /// The highest number that a file of this kind already has, whatever its extension.
    fn last_number(&self, stem: &str) -> u32 {
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let (number, _) = name.strip_prefix(stem)?.strip_prefix('-')?.split_once('.')?;
            number.parse().ok()
        };
        let entries = fs::read_dir(&self.path);
        entries.map_or(0, |entries| entries.filter_map(number).max().unwrap_or(0))
    }

    fn write_numbered(
        &mut self,
        stem: &str,
        extension: &str,
        bytes: &[u8],
    ) -> Result<PathBuf, OutputDirError> {
        let last = self.numbers.get(stem).copied().unwrap_or_else(|| self.last_number(stem));
        for number in last + 1..MAX_NUMBER {
            let path = self.path.join(format!("{stem}-{number}.{extension}"));
            if let Some(path) = create_file(&path, bytes)? {
                self.numbers.insert(stem.to_owned(), number);
                return Ok(path);
            }
        }
        Err(full(self.path.clone()))
    }
}

fn full(path: PathBuf) -> OutputDirError {
    OutputDirError::Write { path, source: io::ErrorKind::QuotaExceeded.into() }
}

/// Writes a new file; none if the name is taken. Follows no link (open(2), `O_EXCL`).
fn create_file(path: &Path, bytes: &[u8]) -> Result<Option<PathBuf>, OutputDirError> {
    let failed = |source| OutputDirError::Write { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    let opened: io::Result<File> = options.write(true).create_new(true).mode(0o666).open(path);
    match opened {
        Ok(mut file) => file.write_all(bytes).map(|()| Some(path.to_owned())).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The best representation and its extension; none if there is only text.
fn best_representation(
    mime: &MimeBundle,
) -> Result<Option<(Vec<u8>, &'static str)>, OutputDirError> {
    let known = MEDIA_TYPES
        .iter()
        .find_map(|(kind, extension)| Some((*kind, mime.get(*kind)?, *extension)));
    // The types of plotly and Altair.
    let other = mime.iter().find(|(kind, _)| kind.ends_with("+json"));
    let found = known.or_else(|| other.map(|(kind, content)| (kind.as_str(), content, "json")));
    let Some((kind, content, extension)) = found else { return Ok(None) };
    let is_text = kind.starts_with("text/") || kind.ends_with("json") || kind.ends_with("+xml");
    let bytes = if is_text { content.clone().into_bytes() } else { decode(kind, content)? };
    Ok(Some((bytes, extension)))
}

fn decode(name: &str, data: &str) -> Result<Vec<u8>, OutputDirError> {
    // IPython puts line ends into its base64.
    let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(data).map_err(|_| OutputDirError::Encoding { name: name.to_owned() })
}

#[cfg(test)]
mod tests;
