//! A session's files on their way into an image and out of it: a tar archive, written and read by the session's
//! kernel, which can touch no other file than its code can.
//!
//! Directories, regular files with their holes, hard and symbolic links, with modes and times to the
//! second. What is mounted beneath stays where it is.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::layout::SaveError;
use super::template::template;
use nix::unistd::geteuid;
use tar::{Archive, Builder, EntryType, Header, HeaderMode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Read(PathBuf, io::Error),
    #[error("{path} is a {what}: remove it", path = .0.display(), what = .1)]
    Special(PathBuf, &'static str),
    #[error(transparent)]
    Template(#[from] SaveError),
    #[error("its files: {0}")]
    Io(#[from] io::Error),
}

/// Where archives are unpacked: names in them are paths without their first slash.
const ROOT: &str = "/";

/// Of which an archive is made: POSIX.1-2024, pax, "ustar Interchange Format".
const BLOCK_BYTES: usize = 512;

/// Begins an image: writes of which template it is, and what is beneath each of `roots`.
pub(crate) fn save_files(roots: &[&Path], to: BorrowedFd<'_>) -> Result<(), FilesError> {
    let template = template().ok_or(SaveError::NoTemplate)?;
    let mut to = File::from(to.try_clone_to_owned()?);
    to.write_all(&template.identity().fingerprint)?;
    let mut archive = Builder::new(BufWriter::with_capacity(64 << 10, to));
    archive.follow_symlinks(false);
    archive.mode(HeaderMode::Complete);
    let owner = geteuid().as_raw();
    let mut links = BTreeMap::new();
    for root in roots {
        let device = fs::metadata(root).map_err(|error| reading(root, error))?.dev();
        let mut directories = vec![root.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory).map_err(|error| reading(&directory, error))?;
            for entry in entries {
                let path = entry.map_err(|error| reading(&directory, error))?.path();
                let found = fs::symlink_metadata(&path).map_err(|error| reading(&path, error))?;
                // Something is mounted there, or was made for that: it is there again in another session.
                if found.dev() != device || found.uid() != owner {
                    continue;
                }
                add(&mut archive, &mut links, &path, &found)?;
                if found.is_dir() {
                    directories.push(path);
                }
            }
        }
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

/// By device and inode: the first name of a file that has several.
type Links = BTreeMap<(u64, u64), PathBuf>;

fn add(
    archive: &mut Builder<impl Write>,
    links: &mut Links,
    path: &Path,
    found: &Metadata,
) -> Result<(), FilesError> {
    let name = path.strip_prefix(ROOT).unwrap_or(path);
    let kind = found.file_type();
    if kind.is_socket() || kind.is_fifo() {
        let what = if kind.is_fifo() { "named pipe" } else { "socket" };
        return Err(FilesError::Special(path.to_owned(), what));
    }
    let is_linked = found.nlink() > 1 && !found.is_dir();
    if is_linked && let Some(first) = links.get(&(found.dev(), found.ino())) {
        let mut header = Header::new_gnu();
        header.set_metadata(found);
        header.set_entry_type(EntryType::Link);
        header.set_size(0);
        return Ok(archive.append_link(&mut header, name, first)?);
    }
    archive.append_path_with_name(path, name).map_err(|error| reading(path, error))?;
    if is_linked {
        links.insert((found.dev(), found.ino()), name.to_owned());
    }
    Ok(())
}

fn reading(path: &Path, error: io::Error) -> FilesError {
    FilesError::Read(path.to_owned(), error)
}

/// Reads an archive to its end, and no byte more, and puts its files where they were.
pub(crate) fn restore_files(from: BorrowedFd<'_>) -> io::Result<()> {
    let mut from = File::from(from.try_clone_to_owned()?);
    let mut archive = Archive::new(&from);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(true);
    archive.unpack(ROOT)?;
    // It ends with two blocks of zeroes, of which the first has been read.
    let mut last = [0; BLOCK_BYTES];
    from.read_exact(&mut last)?;
    if last == [0; BLOCK_BYTES] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
