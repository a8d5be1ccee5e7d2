//! Layer: a root of the session's own.
//!
//! Everything of the host that is to be seen is copied as a detached mount, made read-only,
//! nosuid and nodev while nobody can reach it, and only then attached below a new, empty root
//! (open_tree(2), mount_setattr(2), move_mount(2)). Then pivot_root(2) makes that the root and
//! the host's is detached. What is not listed is not there.
//!
//! | inside | is |
//! |---|---|
//! | system paths, interpreter | the host's, read-only |
//! | `read_paths`, and what else has sockets or FIFOs in it | the same through overlayfs |
//! | hidden distributions | nothing, see [`hidden`] |
//! | `/etc` | a reduced copy, see [`etc`] |
//! | `/.vivarium/bin` | the session's `python` and `pip`, see [`one_python`] |
//! | `/proc` | of the session's own pid namespace, masked, see [`proc`] |
//! | `/dev` | null, zero, full, random, urandom, tty, the fd links |
//! | `/dev/pts` | the session's own terminals (devpts) |
//! | `/mnt/data`, `/home/user` | links to the workdir, unless something is shown there |
//! | `/.vivarium/environment` | the built environment; its path on the host may be a link to it |
//! | `/home/sandbox`, beneath `/mnt` | the session's home and volumes, directories of the host |
//! | workdir, `/tmp`, `/dev/shm` | directories of one tmpfs with the session's size and inode limit |
//!
//! With runtime `wasm` there are no system paths, no `/.vivarium/bin`, and of `/etc` only our own files: its
//! program is all of the host that is seen. Nothing in the workdir can be executed.

mod etc;
mod hidden;
mod host_paths;
mod proc;
mod tree;
mod verify;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::one_python::{self, Entry};
use vivarium_protocol::places;
use vivarium_protocol::policy::{Interpreter, StoreMount};

pub(crate) use self::host_paths::HostPaths;
use self::tree::{Access, Source, attach, detached};
use super::{Context, LayerCode, LayerError, namespaces, system_paths};

/// Where the new root is put together: any directory that every host has. What the host keeps
/// there is hidden by it, so all sources are taken before.
const STAGE: &str = "/tmp";

/// What the new root has of its own at most: mount points, links and small files.
const OWN_INODES: usize = 2048;

/// The most terminals of a session at a time.
const MAX_TERMINALS: u32 = 64;

/// An empty directory of the new root, for what needs one.
const EMPTY: &str = ".empty";

pub(super) struct Mounts;

impl LayerCode for Mounts {
    fn layer(&self) -> Layer {
        Layer::Mounts
    }

    fn prepare(&self, context: &Context) -> Result<(), LayerError> {
        build(context).map_err(with_fix)
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        finish(context).map_err(with_fix)
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        verify::verify(context)
    }
}

fn with_fix(error: LayerError) -> LayerError {
    match namespaces::apparmor_fix() {
        Some(fix) => error.with_fix(fix),
        None => error,
    }
}

/// Makes the new root, whole but for what the agent alone can make. It has the host's `/proc` until then: a new one can be
/// mounted only where another is seen (user_namespaces(7), "mounting").
fn build(context: &Context) -> Result<(), LayerError> {
    // Nothing done here may reach the host, and nothing mounted there later may appear here.
    mount_fs(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    let sources = sources(context)?;
    let etc = if context.is_wasm() { Vec::new() } else { etc::sources(context)? };
    let hidden = hidden::find(context)?;
    let stage = Path::new(STAGE);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let inodes = OWN_INODES + hidden::inodes(&hidden);
    let options = format!("mode=755,size=2m,nr_inodes={inodes}");
    mount_fs(Some("tmpfs"), STAGE, Some("tmpfs"), flags, Some(&options))?;
    tree::make_directory(&stage.join(EMPTY))?;
    // The writable places first, as what is configured to be seen may lie below one of them.
    writable(context, stage)?;
    // A session that has some is not prepared ahead.
    for (mount, store) in context.stores.iter().zip(&context.policy.stores) {
        let place = stage.join(store.target.strip_prefix("/").unwrap_or(&store.target));
        tree::make_directory(&place)?;
        tree::place(mount, &place)?;
    }
    for source in sources.iter().chain(&etc) {
        attach(source, stage)?;
    }
    hidden::apply(&hidden, stage)?;
    link_environment(context, stage)?;
    etc::write_own(context, stage)?;
    link_aliases(context, &sources, stage)?;
    tree::write_file(&stage.join(system_paths::UNLISTED.trim_start_matches('/')), "", 0o644)?;
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        tree::symlink(target, &stage.join("dev").join(name))?;
    }
    mount_terminals(context, stage)?;
    proc::show_hosts(stage)?;
    let interpreter = &context.policy.interpreter;
    let resolved = interpreter.path.canonicalize();
    pivot(stage)?;
    // As the kernel is executed: by its configured path, unless that leads through a directory that
    // is not in the session.
    let resolved = resolved.as_deref().ok().filter(|_| !interpreter.path.exists());
    if !context.is_wasm() {
        write_python(interpreter, resolved.unwrap_or(&interpreter.path), &context.policy.workdir)?;
    }
    // The root itself held the mount points while they were made; from here on it is read-only.
    tree::seal(Path::new("/"))
}

/// Completes it by what the session's processes are.
fn finish(context: &Context) -> Result<(), LayerError> {
    // Where another process made it the root, this one is where that process's parent was.
    chdir("/").map_err(|error| LayerError::new("chdir to /", error))?;
    proc::mount_own(context)
}

/// The session's own terminals, few of them, each of them the tenant's:
/// `Documentation/filesystems/devpts.rst` of Linux.
fn mount_terminals(context: &Context, stage: &Path) -> Result<(), LayerError> {
    let path = stage.join("dev/pts");
    tree::make_directory(&path)?;
    let owner = context.policy.ids.map(|_| Context::KERNEL_ID);
    let owner = owner.map(|id| format!(",uid={id},gid={id}")).unwrap_or_default();
    let options = format!("newinstance,ptmxmode=0666,mode=0600,max={MAX_TERMINALS}{owner}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount_fs(Some("devpts"), &path, Some("devpts"), flags, Some(&options))?;
    tree::symlink("pts/ptmx", &stage.join("dev/ptmx"))
}

/// Links the path that a built environment has on the host to its place, if its interpreter has that
/// name: the template that kernels are forked from sees no other.
fn link_environment(context: &Context, stage: &Path) -> Result<(), LayerError> {
    let policy = &context.policy;
    let is_named = |store: &&StoreMount| {
        store.target == Path::new(places::ENVIRONMENT)
            && policy.interpreter.path.starts_with(&store.source)
    };
    let Some(store) = policy.stores.iter().find(is_named) else { return Ok(()) };
    let own = stage.join(store.source.strip_prefix("/").unwrap_or(&store.source));
    tree::make_directory(own.parent().unwrap_or(stage))?;
    tree::symlink(&store.target, &own)
}

/// Links the workdir's other names to it. After everything else of the new root, so that nothing is
/// put where a link leads: outside of the new root as long as that is not the root.
fn link_aliases(context: &Context, sources: &[Source], stage: &Path) -> Result<(), LayerError> {
    let workdir = &context.policy.workdir;
    for alias in places::ALIASES.map(Path::new) {
        let within = |outer: &Path| alias.starts_with(outer);
        let own = stage.join(alias.strip_prefix("/").unwrap_or(alias));
        // Not into what is shown of the host, nor in place of it.
        if within(workdir)
            || sources.iter().any(|source| within(source.path()))
            || own.symlink_metadata().is_ok()
        {
            continue;
        }
        tree::make_directory(own.parent().unwrap_or(stage))?;
        tree::symlink(workdir, &own)?;
    }
    Ok(())
}

/// Writes the session's `python` and `pip` into the new root.
fn write_python(interpreter: &Interpreter, path: &Path, workdir: &Path) -> Result<(), LayerError> {
    let directory = Path::new(one_python::DIRECTORY);
    tree::make_directory(directory)?;
    let entries = one_python::entries(interpreter, path, workdir);
    entries.into_iter().try_for_each(|(name, entry)| match entry {
        Entry::Script(text) => tree::write_file(&directory.join(name), &text, 0o755),
        Entry::Link(to) => tree::symlink(to, &directory.join(name)),
    })
}

/// The session's homes and volumes, in the order of the policy.
pub(super) fn take_stores(context: &Context) -> Result<Vec<OwnedFd>, LayerError> {
    let stores = &context.policy.stores;
    if stores.is_empty() {
        return Ok(Vec::new());
    }
    // As in `build`: so that these mounts are private too.
    mount_fs(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    let access = |read_only| if read_only { Access::ReadOnly } else { Access::Writable };
    stores.iter().map(|store| detached(&store.source, access(store.read_only))).collect()
}

/// Paths of the host that are to be seen, `/etc` and devices apart.
fn trees(context: &Context) -> Vec<PathBuf> {
    let policy = &context.policy;
    let configured = policy.interpreter.prefixes.iter().chain(&policy.read_paths);
    let mut trees: Vec<PathBuf> = configured.cloned().collect();
    if !context.is_wasm() {
        trees.extend(system_paths::READ_EXECUTE.iter().map(PathBuf::from));
        trees.push(PathBuf::from(system_paths::SYS_CPU));
    }
    trees
}

/// What of the host is to be seen, `/etc` apart: taken while the host's tree is still whole.
fn sources(context: &Context) -> Result<Vec<Source>, LayerError> {
    let mut trees = trees(context);
    // A path below another that is there already would only be bound twice; outer ones first.
    trees.sort();
    trees.dedup();
    let mut sources: Vec<Source> = Vec::new();
    for path in trees {
        let isolated = isolated(context).any(|isolated| *isolated == path);
        let is_there = |outer: &Source| {
            outer.is_tree() && path.starts_with(outer.path()) && (outer.is_isolated() || !isolated)
        };
        if sources.iter().any(is_there) {
            continue;
        }
        sources.extend(if isolated {
            Source::take_isolated(&path)?
        } else {
            Source::take(&path, Access::ReadOnly)?
        });
    }
    for device in system_paths::DEVICES.iter().chain([&system_paths::OWN_TERMINAL]) {
        sources.extend(Source::take(Path::new(device), Access::Device)?);
    }
    Ok(sources)
}

/// What is shown through overlayfs: what the operator added, where services of the host may be at
/// any time, and what had sockets or FIFOs in it when the daemon started.
fn isolated(context: &Context) -> impl Iterator<Item = &PathBuf> {
    let policy = &context.policy;
    policy.read_paths.iter().chain(&policy.interpreter.isolate)
}

/// One tmpfs with the session's limits, three directories of which become the only places
/// that can be written to: whatever is written where counts together, /dev/shm too.
fn writable(context: &Context, stage: &Path) -> Result<(), LayerError> {
    let limits = &context.policy.limits;
    // tmpfs(5): 0 lifts the limit.
    let size = limits.max_disk_mb.times(1 << 20).unwrap_or(0);
    let inodes = limits.max_inodes.get().unwrap_or(0);
    let options = format!("mode=755,size={size},nr_inodes={inodes}");
    let own = |path: &str| stage.join(path.trim_start_matches('/'));
    let pool = own("tmp");
    tree::make_directory(&pool)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_fs(Some("tmpfs"), &pool, Some("tmpfs"), flags, Some(&options))?;

    // noexec would break extension modules installed into the workdir, of which an engine has none; the
    // other two hold data.
    let of_workdir = if context.is_wasm() { Access::WritableNoExec } else { Access::Writable };
    let workdir = context.policy.workdir.to_string_lossy();
    let places = [
        (&*workdir, 0o700, of_workdir),
        ("/tmp", 0o1777, Access::WritableNoExec),
        ("/dev/shm", 0o1777, Access::WritableNoExec),
    ];
    let mut trees = Vec::new();
    for (number, (place, mode, access)) in places.into_iter().enumerate() {
        let directory = pool.join(number.to_string());
        tree::make_directory(&directory)?;
        let owned_by_kernel = |path: &Path, mode| {
            let id = Some(Context::KERNEL_ID);
            std::os::unix::fs::chown(path, id, id)
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
                .map_err(|error| LayerError::new(format!("give {}", path.display()), error))
        };
        if place == workdir {
            // TMPDIR, which has to exist before anything asks for it.
            let temporary = directory.join(".tmp");
            tree::make_directory(&temporary)?;
            owned_by_kernel(&temporary, 0o700)?;
        }
        owned_by_kernel(&directory, mode)?;
        trees.push((detached(&directory, access)?, own(place)));
    }
    umount2(&pool, MntFlags::MNT_DETACH)
        .map_err(|error| LayerError::new(format!("umount2({})", pool.display()), error))?;
    for (mounted, place) in trees {
        tree::make_directory(&place)?;
        tree::place(&mounted, &place)?;
    }
    Ok(())
}

/// Makes `stage` the root and lets go of the host's: pivot_root(2), "pivot_root(".", ".")".
fn pivot(stage: &Path) -> Result<(), LayerError> {
    let failed = |operation: &'static str| move |error| LayerError::new(operation, error);
    chdir(stage).map_err(failed("chdir to the new root"))?;
    pivot_root(".", ".").map_err(failed("pivot_root"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("detach the old root"))
}

fn mount_fs(
    source: Option<&str>,
    target: impl AsRef<Path>,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> Result<(), LayerError> {
    let target = target.as_ref();
    mount(source, target, kind, flags, data).map_err(|error| {
        let kind = kind.unwrap_or("no filesystem");
        LayerError::new(format!("mount {kind} on {} ({flags:?})", target.display()), error)
    })
}

#[cfg(test)]
mod tests {
    use vivarium_protocol::policy::Network;

    use super::super::landlock::fixture;
    use super::*;

    /// Only root can copy mounts.
    #[test]
    fn nested_path_is_bound_only_for_isolation() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let own = |name: &str| dir.path().join(name);
        fs::create_dir_all(own("isolated/below")).unwrap();
        fs::create_dir_all(own("inner")).unwrap();
        fs::create_dir_all(own("alone")).unwrap();
        let mut context = fixture::context(&[Layer::Mounts], Network::None, Path::new("/"));
        context.policy.interpreter.prefixes =
            vec![own("inner"), dir.path().to_owned(), PathBuf::from("/usr/lib")];
        context.policy.read_paths = vec![own("isolated"), own("isolated/below")];
        let taken = sources(&context).unwrap();
        let below: Vec<_> =
            taken.iter().filter(|source| source.path().starts_with(dir.path())).collect();
        let paths: Vec<_> = below.iter().map(|source| source.path().to_owned()).collect();
        assert_eq!(paths, [dir.path().to_owned(), own("isolated")]);
        assert_eq!(below.iter().map(|one| one.is_isolated()).collect::<Vec<_>>(), [false, true]);
        assert!(taken.iter().any(|source| source.path() == Path::new("/usr")));
        assert!(!taken.iter().any(|source| source.path() == Path::new("/usr/lib")));
        for device in system_paths::DEVICES {
            assert!(taken.iter().any(|source| source.path() == Path::new(device)), "{device}");
        }
    }
}
