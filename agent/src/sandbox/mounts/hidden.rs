//! What of the host's trees is not to be there at all: the files of hidden distributions.
//!
//! A directory that holds some is shown through overlayfs, with a layer above it that has a whiteout for each of them: who
//! looks for it finds nothing, and the import system no empty directory that it would take for a namespace package. Made
//! before pivot_root(2), of the tree as it is bound. What cannot be hidden is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, mknod};

use super::{EMPTY, mount_fs, tree, trees};
use crate::sandbox::{Context, LayerError};

/// A directory of the new root, for the layers that hide.
const LAYERS: &str = ".hidden";

/// Names to hide, by the directory that they are in, as it is called inside.
pub(super) type Hidden = BTreeMap<PathBuf, Vec<OsString>>;

/// What is to be hidden, while the host's tree is still whole: by the paths that lead through no link, and by those at
/// which trees show it that are bound at a path through links, where directories stand for these.
pub(super) fn find(context: &Context) -> Result<Hidden, LayerError> {
    let hidden = &context.policy.hidden_paths;
    let mut linked = Vec::new();
    for tree in if hidden.is_empty() { Vec::new() } else { trees(context) } {
        let real = resolved(&tree)?.filter(|real| *real != tree);
        linked.extend(real.map(|real| (real, tree)));
    }
    let mut paths = BTreeSet::new();
    for path in hidden {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let Some(parent) = resolved(parent)? else { continue };
        let path = parent.join(name);
        let shown =
            linked.iter().filter_map(|(real, tree)| Some(tree.join(path.strip_prefix(real).ok()?)));
        paths.extend(shown);
        paths.insert(inside(context, parent).join(name));
    }
    Ok(by_directory(&paths))
}

/// A path without links; nothing if nothing is there.
fn resolved(path: &Path) -> Result<Option<PathBuf>, LayerError> {
    match path.canonicalize() {
        Ok(path) => Ok(Some(path)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(LayerError::new(format!("resolve {}", path.display()), error)),
    }
}

/// Without what lies below something that is hidden whole.
fn by_directory(paths: &BTreeSet<PathBuf>) -> Hidden {
    let mut found = Hidden::new();
    for path in paths {
        if path.ancestors().skip(1).any(|outer| paths.contains(outer)) {
            continue;
        }
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            found.entry(parent.to_owned()).or_default().push(name.to_owned());
        }
    }
    found
}

/// How many files and directories hiding it takes at most.
pub(super) fn inodes(hidden: &Hidden) -> usize {
    hidden.iter().map(|(parent, names)| parent.components().count() + 1 + names.len()).sum()
}

/// What a path of the host is called inside, where homes and built environments have places of their own.
fn inside(context: &Context, path: PathBuf) -> PathBuf {
    let stores = context.policy.stores.iter();
    let mut within =
        stores.filter_map(|store| Some(store.target.join(path.strip_prefix(&store.source).ok()?)));
    within.next().unwrap_or(path)
}

/// Hides it in the new root: by one overlay for each outermost directory, as overlayfs stacks no more than two, and the
/// host's own root may be one.
pub(super) fn apply(hidden: &Hidden, stage: &Path) -> Result<(), LayerError> {
    let mut layers: Vec<(&Path, PathBuf)> = Vec::new();
    let root = resolved(stage)?;
    for (parent, names) in hidden {
        let target = staged(stage, parent);
        // Through a link of the new root: where that leads has a path of its own here.
        let here = root.as_deref().map(|root| staged(root, parent));
        if resolved(&target)?.is_none_or(|real| Some(real) != here) {
            continue;
        }
        let names: Vec<_> =
            names.iter().filter(|name| target.join(name).symlink_metadata().is_ok()).collect();
        let Some(first) = names.first() else { continue };
        if parent == Path::new("/") {
            return Err(LayerError::new(
                format!("hide {}", parent.join(first).display()),
                "it lies in /",
            ));
        }
        let outer = layers
            .iter()
            .find_map(|(outer, layer)| Some(layer.join(parent.strip_prefix(outer).ok()?)));
        let layer = outer.unwrap_or_else(|| {
            let layer = stage.join(LAYERS).join(layers.len().to_string());
            layers.push((parent, layer.clone()));
            layer
        });
        tree::make_directory(&layer)?;
        for name in names {
            mknod(&layer.join(name), SFlag::S_IFCHR, Mode::empty(), 0).map_err(|error| {
                LayerError::new(format!("hide {}", parent.join(name).display()), error)
            })?;
        }
    }
    layers.iter().try_for_each(|(outer, layer)| cover(layer, &staged(stage, outer), stage))
}

fn staged(stage: &Path, path: &Path) -> PathBuf {
    stage.join(path.strip_prefix("/").unwrap_or(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_hidden_directory_is_hidden_with_it() {
        let paths = ["/site/gone", "/site/gone/inner/file", "/site/goner/file", "/site/shared/own"];
        let found = by_directory(&paths.map(PathBuf::from).into());
        // Whiteouts, and directories down to them.
        assert_eq!(inodes(&found), (3 + 2) + (2 + 2) + (3 + 2));
        let shown: Vec<_> = found
            .iter()
            .flat_map(|(parent, names)| names.iter().map(|name| parent.join(name)))
            .collect();
        assert_eq!(
            shown,
            ["/site/gone", "/site/goner/file", "/site/shared/own"].map(PathBuf::from)
        );
    }
}
