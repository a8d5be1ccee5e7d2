//! What of the host's trees is not to be there at all: the files of hidden distributions.
//!
//! A directory that holds some is shown through overlayfs, with a layer above it that has a whiteout for each of them: who
//! looks for it finds nothing, and the import system no empty directory that it would take for a namespace package. Made
//! before pivot_root(2), of the tree as it is bound. What cannot be hidden is an error.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, mknod};

use super::{EMPTY, mount_fs, tree};
use crate::sandbox::{Context, LayerError};

/// A directory of the new root, for the layers that hide.
const LAYERS: &str = ".hidden";

/// Names to hide, by the directory that they are in, as it is called inside.
pub(super) type Hidden = BTreeMap<PathBuf, Vec<OsString>>;

/// What is to be hidden, while the host's tree is still whole: by the paths that lead through no link.
pub(super) fn find(context: &Context) -> Result<Hidden, LayerError> {
    let mut found = Hidden::new();
    for path in &context.policy.hidden_paths {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let parent = match parent.canonicalize() {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(LayerError::new(format!("resolve {}", parent.display()), error));
            }
        };
        let names = found.entry(inside(context, parent)).or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(found)
}

/// What a path of the host is called inside, where homes and built environments have places of their own.
fn inside(context: &Context, path: PathBuf) -> PathBuf {
    let stores = context.policy.stores.iter();
    let mut within =
        stores.filter_map(|store| Some(store.target.join(path.strip_prefix(&store.source).ok()?)));
    within.next().unwrap_or(path)
}

/// Hides it in the new root.
pub(super) fn apply(hidden: &Hidden, stage: &Path) -> Result<(), LayerError> {
    for (number, (parent, names)) in hidden.iter().enumerate() {
        let target = stage.join(parent.strip_prefix("/").unwrap_or(parent));
        let names: Vec<_> =
            names.iter().filter(|name| target.join(name).symlink_metadata().is_ok()).collect();
        if names.is_empty() {
            continue;
        }
        let layer = stage.join(LAYERS).join(number.to_string());
        tree::make_directory(&layer)?;
        for name in names {
            let whiteout = layer.join(name);
            mknod(&whiteout, SFlag::S_IFCHR, Mode::empty(), 0)
                .map_err(|error| LayerError::new(format!("hide {}", name.display()), error))?;
        }
        cover(&layer, &target, stage)?;
    }
    Ok(())
}

fn cover(layer: &Path, target: &Path, stage: &Path) -> Result<(), LayerError> {
    let open = |path: &Path| {
        tree::open_path(path)
            .map_err(|error| LayerError::new(format!("open {}", path.display()), error))
    };
    // By descriptor, as a path may hold what overlayfs takes for a separator.
    let (above, below) = (open(layer)?, open(target)?);
    let layers = format!(
        "lowerdir=/proc/self/fd/{}:/proc/self/fd/{}:{}",
        above.as_raw_fd(),
        below.as_raw_fd(),
        stage.join(EMPTY).display()
    );
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_fs(Some("overlay"), target, Some("overlay"), flags, Some(&layers)).map_err(|error| {
        error.with_fix(
            "load the kernel's module `overlay`; distributions below which something else is \
             mounted cannot be hidden"
                .to_owned(),
        )
    })
}

/// Reads back that nothing of it is there.
pub(super) fn verify(context: &Context) -> Result<(), LayerError> {
    for path in &context.policy.hidden_paths {
        for path in [path.clone(), inside(context, path.clone())] {
            match fs::symlink_metadata(&path) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) => {}
                found => {
                    let found = found.map_or_else(|error| error.to_string(), |_| "there".into());
                    return Err(LayerError::not_in_force(
                        format!("{} is hidden", path.display()),
                        found,
                    ));
                }
            }
        }
    }
    Ok(())
}
