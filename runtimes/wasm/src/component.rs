//! Finds the compiled component, has it compiled where it does not fit, and checks who could have written it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, OFlags, flock};
use wasmtime::component::Component;
use wasmtime::{Engine, Result, bail, error::Context as _};

use crate::ffi;

const COMPILED: &str = "python.cwasm";
const SOURCE: &str = "python.wasm";
const COMPILER: &str = "vivarium-wasm-compile";
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What runs commands, where it is installed: the compiler's program.
#[must_use]
pub fn runner() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(COMPILER);
    program.is_file().then_some(program)
}

/// Opens a compiled component that nobody but root and this user can have written.
///
/// # Errors
/// If it cannot be opened, or another user could have written it.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(no_link)?;
    let data = file.metadata()?;
    let refuse = |why: &str| Err(io::Error::other(why.to_owned()));
    if !data.is_file() {
        return refuse("it is no regular file");
    }
    if data.uid() != 0 && data.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to another user, who could change it");
    }
    if data.mode() & WRITABLE_BY_OTHERS != 0 {
        return refuse("others than its owner can write to it");
    }
    Ok(file)
}

fn no_link(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a link"),
        _ => error,
    }
}

/// The component that the supervisor has opened, checked and passed as a descriptor.
///
/// # Errors
/// If it is none, or does not fit.
pub fn passed(engine: &Engine, file: &File) -> Result<Component> {
    if !file.metadata()?.is_file() {
        bail!("descriptor 4 is no regular file");
    }
    ffi::load(engine, file)
}

/// The component beside the program if it fits, else one in the directory `cache`, which is compiled if need be.
///
/// # Errors
/// If there is none that fits, and it cannot be compiled.
pub fn fitting(engine: &Engine, cache: &Path) -> Result<(PathBuf, Component)> {
    let program = std::env::current_exe()?;
    let beside = |name: &str| program.with_file_name(name);
    let packaged = beside(COMPILED);
    let why =
        match open(&packaged).map_err(wasmtime::Error::from).and_then(|f| ffi::load(engine, &f)) {
            Ok(component) => return Ok((packaged, component)),
            Err(why) => why,
        };
    for needed in [COMPILER, SOURCE] {
        if !beside(needed).exists() {
            bail!("{}: {why:#}; to compile another, {needed} is not there", packaged.display());
        }
    }
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(cache)
        .with_context(|| format!("make {}, for a compiled component", cache.display()))?;
    let lock = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(cache.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let name = compiled_of(&beside(SOURCE))?;
    remove_others(cache, &name)?;
    let path = cache.join(name);
    if let Ok(component) =
        open(&path).map_err(wasmtime::Error::from).and_then(|f| ffi::load(engine, &f))
    {
        return Ok((path, component));
    }
    eprintln!("{}: {why:#}; compiling another into {}", packaged.display(), cache.display());
    let status = Command::new(beside(COMPILER))
        .arg("component")
        .args([beside(SOURCE), path.clone()])
        .status()?;
    if !status.success() {
        bail!("{COMPILER} ended with {status}");
    }
    let component = ffi::load(engine, &open(&path)?)?;
    Ok((path, component))
}

/// The name of what is compiled of this source. Of another there is another, be it older or newer.
fn compiled_of(source: &Path) -> io::Result<String> {
    let data = fs::metadata(source)?;
    Ok(format!("python-{}-{}-{}.cwasm", data.size(), data.mtime(), data.mtime_nsec()))
}

/// Removes what is compiled of other sources, and what compilers that were killed have left.
fn remove_others(cache: &Path, name: &str) -> io::Result<()> {
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let found = entry.file_name();
        if found.as_bytes().starts_with(b"python") && found != name {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_component_that_others_could_change_is_not_opened() {
        let dir = std::env::temp_dir().join(format!("vivarium-wasm-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(COMPILED);
        fs::write(&path, "code").unwrap();
        let set = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        set(0o644);
        drop(open(&path).unwrap());
        for mode in [0o664, 0o646, 0o666] {
            set(mode);
            assert!(open(&path).is_err_and(|e| e.to_string().contains("can write")), "{mode:o}");
        }
        set(0o644);
        let link = dir.join("link");
        symlink(&path, &link).unwrap();
        assert!(
            open(&link).is_err_and(|e| e.to_string().contains("is a link")),
            "it can be led elsewhere"
        );
        assert!(open(&dir).is_err_and(|e| e.to_string().contains("regular")));
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(12345), None).unwrap();
            assert!(open(&path).is_err_and(|e| e.to_string().contains("another user")));
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_compiled_of_another_source_has_another_name_and_goes() {
        let dir = std::env::temp_dir().join(format!("vivarium-cache-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let source = dir.join("source");
        let mut names = std::collections::BTreeSet::new();
        for (content, seconds, nanoseconds) in
            [("code", 9, 0), ("code", 9, 1), ("code", 8, 1), ("other", 8, 1)]
        {
            fs::write(&source, content).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::new(seconds, nanoseconds);
            File::options().write(true).open(&source).unwrap().set_modified(time).unwrap();
            let name = compiled_of(&source).unwrap();
            assert_eq!(compiled_of(&source).unwrap(), name);
            names.insert(name);
        }
        assert_eq!(names.len(), 4);
        let kept = names.pop_first().unwrap();
        let part = format!("{kept}.123");
        let others = names.iter().map(String::as_str).chain([COMPILED, &part]);
        for name in others.chain([&*kept, "lock"]) {
            fs::write(dir.join(name), "").unwrap();
        }
        remove_others(&dir, &kept).unwrap();
        let left = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["lock", &*kept, "source"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_passed_descriptor_must_be_a_compiled_component() {
        let engine = crate::engine().unwrap();
        let why = |file: &File| format!("{:#}", passed(&engine, file).err().unwrap());
        assert!(why(&File::open("/").unwrap()).contains("no regular file"));
        let path = std::env::temp_dir().join(format!("vivarium-passed-{}", std::process::id()));
        fs::write(&path, "no code").unwrap();
        let said = why(&File::open(&path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!said.contains("no regular file"), "{said}");
    }
}
