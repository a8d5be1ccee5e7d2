//! The allow-list: which path, and what may be done at and beneath it.
//!
//! Rules name inodes, opened here, inside the session. Never a rule for `/` or `/etc` of the
//! host, a home directory, or the host's whole /proc.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use landlock::{Access, AccessFs, BitFlags, PathBeneath, PathFd, PathFdError};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::one_python;

use super::super::{Context, LayerError, system_paths};
use super::NEWEST;

pub(super) type Allow = PathBeneath<PathFd>;

/// A path, and what may be done there.
#[derive(Debug)]
pub(super) struct Rule {
    path: PathBuf,
    rights: BitFlags<AccessFs>,
}

impl Rule {
    /// Opens the path, for as long as it takes to add the rule: the session's `max_open_fds` holds
    /// already. `None` where there is nothing to allow.
    pub(super) fn open(&self) -> Result<Option<Allow>, LayerError> {
        open(&self.path, self.rights)
    }
}

pub(super) fn of(context: &Context) -> Result<Vec<Rule>, LayerError> {
    let host = list(context).into_iter().map(|(path, rights)| Rule { path, rights });
    let workdir = context.policy.inner_workdir();
    let rights = if context.is_wasm() { scratch() } else { owned() };
    let own = Rule { path: workdir.to_owned(), rights };
    // Unlike the host's paths this one must be there.
    if own.open()?.is_none() {
        let operation = format!("open the workdir {}", workdir.display());
        return Err(LayerError::new(operation, "it does not exist"));
    }
    Ok(host.chain([own]).collect())
}

/// What a process that works on one store may do in it: running nothing, and making only directories,
/// which removing a tree moves others into.
pub(super) fn of_storage(writes: bool) -> BitFlags<AccessFs> {
    let changes = AccessFs::RemoveFile | AccessFs::RemoveDir | AccessFs::MakeDir | AccessFs::Refer;
    if writes { read() | changes } else { read() }
}

/// Everything but the workdir.
fn list(context: &Context) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let policy = &context.policy;
    let mut list: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    let mut allow = |paths: &[&str], rights: BitFlags<AccessFs>| {
        list.extend(paths.iter().map(|path| (PathBuf::from(path), rights)));
    };
    allow(system_paths::DEVICES, AccessFs::ReadFile.into());
    allow(WRITABLE_DEVICES, device());
    if !context.is_wasm() {
        allow(system_paths::READ_EXECUTE, run());
        allow(&[system_paths::SYS_CPU], read());
    }
    if context.applies(Layer::Mounts) {
        // The new root, for listing only. All that is below it and not the mounts layer's own empty
        // directories is listed in a rule that allows as much.
        allow(&["/"], AccessFs::ReadDir.into());
        if !context.is_wasm() {
            // The session's own /etc, with what is in `system_paths::ETC`.
            allow(&["/etc"], read());
        }
        // All of /proc, as a rule names an inode: /proc/self of a child that has not started yet
        // is another directory, and can not be named. It is the session's own /proc, without
        // the processes of others, and with its dangerous entries masked.
        allow(&["/proc"], read());
        allow(&["/tmp", "/dev/shm"], scratch());
        // The session's own, and which of them is the caller's. The filter refuses to type into one.
        allow(&[system_paths::TERMINALS, system_paths::OWN_TERMINAL], device() | AccessFs::ReadDir);
    } else {
        if !context.is_wasm() {
            allow(system_paths::ETC, read());
        }
        allow(system_paths::HOST_PROC, AccessFs::ReadFile.into());
        // The kernel's own directory and no other, so not its children's either: the host's
        // /proc shows the daemon and its neighbours.
        allow(&["/proc/self"], read());
    }
    for store in &policy.stores {
        list.push((store.target.clone(), if store.read_only { run() } else { owned() }));
    }
    list.push((policy.interpreter.path.clone(), run()));
    let more = policy.interpreter.prefixes.iter().chain(&policy.read_paths);
    if context.is_wasm() {
        // Of what the program reads, its libraries' directories have the loader that it is started by. And there
        // is what runs commands.
        let engine = policy.interpreter.wasm.as_ref();
        let runner = engine.and_then(|engine| engine.runner.as_ref());
        let runs = |path: &PathBuf| path.is_dir() || Some(path) == runner;
        list.extend(more.map(|path| (path.clone(), if runs(path) { run() } else { read() })));
    } else {
        list.push((one_python::directory(policy), run()));
        list.extend(more.map(|path| (path.clone(), run())));
    }
    list
}

/// What is written to these vanishes. The two random ones are not among them: writing there
/// stirs the host's pool.
const WRITABLE_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

fn read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn run() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST)
}

/// These drivers have no ioctls: with the right the caller gets ENOTTY, as isatty(3) expects.
fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// Everything but making devices and speaking to them.
fn owned() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// The same, but nothing is run from there.
fn scratch() -> BitFlags<AccessFs> {
    owned() & !BitFlags::from(AccessFs::Execute)
}

/// Opens `path` for a rule; `None` if the host has no such path or shows it to others only:
/// what is not allowed stays denied.
fn open(path: &Path, rights: BitFlags<AccessFs>) -> Result<Option<Allow>, LayerError> {
    let operation = || format!("open {} for a Landlock rule", path.display());
    let absent = |kind: ErrorKind| {
        matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
    };
    let opened = match PathFd::new(path) {
        Ok(opened) => opened,
        Err(PathFdError::OpenCall { source, .. }) if absent(source.kind()) => return Ok(None),
        Err(PathFdError::OpenCall { source, .. }) => {
            return Err(LayerError::new(operation(), source));
        }
        Err(error) => return Err(LayerError::new(operation(), error)),
    };
    // A rule for a file has only the rights that a file can have.
    let metadata = fs::metadata(path).map_err(|error| LayerError::new(operation(), error))?;
    let directory = metadata.is_dir();
    let rights = if directory { rights } else { rights & AccessFs::from_file(NEWEST) };
    Ok(Some(PathBeneath::new(opened, rights)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vivarium_protocol::policy::Network;

    use super::super::fixture;
    use super::*;

    /// Each right that is not named is denied.
    #[test]
    fn each_kind_of_path_has_its_rights() {
        let to_make = AccessFs::MakeChar | AccessFs::MakeBlock;
        let all = AccessFs::from_all(NEWEST);
        assert_eq!(read().iter().collect::<Vec<_>>(), [AccessFs::ReadFile, AccessFs::ReadDir]);
        assert_eq!(run(), read() | AccessFs::Execute);
        assert_eq!(
            device().iter().collect::<Vec<_>>(),
            [AccessFs::WriteFile, AccessFs::ReadFile, AccessFs::Truncate, AccessFs::IoctlDev]
        );
        assert!(all.contains(to_make | AccessFs::IoctlDev));
        assert!(!owned().intersects(to_make | AccessFs::IoctlDev));
        assert_eq!(owned() | to_make | AccessFs::IoctlDev, all);
        assert_eq!(scratch() | AccessFs::Execute, owned());
        assert!(!scratch().contains(AccessFs::Execute));
    }

    /// Of runtime `wasm` the program, what runs commands, and the directories of libraries if there are any.
    #[test]
    fn only_an_engines_programs_and_their_libraries_are_executed() {
        let dir = tempfile::tempdir().unwrap();
        let own = |name: &str| dir.path().join(name);
        fs::create_dir(own("lib")).unwrap();
        fs::write(own("program"), "").unwrap();
        fs::write(own("data"), "").unwrap();
        fs::write(own("runner"), "").unwrap();
        let layers = [Layer::Mounts, Layer::Landlock];
        let mut context = fixture::context(&layers, Network::None, dir.path());
        let interpreter = &mut context.policy.interpreter;
        interpreter.path = own("program");
        interpreter.prefixes = ["program", "runner", "lib", "data"].map(own).to_vec();
        let executable = |context: &Context| -> BTreeSet<PathBuf> {
            let rules = of(context).unwrap().into_iter();
            rules.filter(|it| it.rights.contains(AccessFs::Execute)).map(|it| it.path).collect()
        };
        let of_python = executable(&context);
        assert!(of_python.contains(&own("data")) && of_python.contains(dir.path()), "control");
        let mut engine = fixture::engine();
        context.policy.interpreter.wasm = Some(engine.clone());
        assert_eq!(executable(&context), ["lib", "program"].map(own).into());
        engine.runner = Some(own("runner"));
        context.policy.interpreter.wasm = Some(engine);
        assert_eq!(executable(&context), ["lib", "program", "runner"].map(own).into());
        let data = of(&context).unwrap().into_iter().find(|it| it.path == own("data"));
        assert_eq!(data.unwrap().rights, read());
    }

    #[test]
    fn a_path_that_can_not_be_opened_for_another_reason_is_an_error() {
        for absent in ["/nonexistent/path", "/proc/self/exe/below"] {
            assert!(open(Path::new(absent), read()).is_ok_and(|rule| rule.is_none()), "{absent}");
        }
        let too_long = format!("/{}", "a".repeat(300));
        assert!(open(Path::new(&too_long), read()).is_err());
    }
}
