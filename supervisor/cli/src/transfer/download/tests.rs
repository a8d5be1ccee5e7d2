use super::*;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::pty::openpty;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::io::AsyncWriteExt;

const THEIRS: &[u8] = b"theirs";

/// Downloads to this path, as an archive; returns the failure's message.
async fn download(path: &Path, replace: bool) -> Result<(), String> {
    let file = Some(path.to_str().unwrap());
    let download = Download { name: "demo.tar", file, replace, is_binary: true };
    let kept = download.keep(async |to| {
        to.write_all(THEIRS).await.unwrap();
        to.flush().await.unwrap();
        Ok(6)
    });
    match kept.await {
        Ok(kept) => {
            assert_eq!(kept.unwrap().1, 6);
            Ok(())
        }
        Err(failure) => Err(failure.message().to_owned()),
    }
}

/// Every entry of a directory: no temporary file is left.
fn entries(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut all: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_file_is_replaced_on_request_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    fs::write(&path, "mine").unwrap();
    let refused = download(&path, false).await.unwrap_err();
    assert!(refused.ends_with("a.tar is there already: name another, or use --force"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    download(&path, true).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), THEIRS);
    download(dir.path(), false).await.unwrap();
    assert_eq!(entries(dir.path()), ["a.tar", "demo.tar"]);
}

#[tokio::test]
async fn a_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    symlink("target", &link).unwrap();
    for replace in [false, true] {
        let dangling = download(&link, replace).await.unwrap_err();
        assert!(dangling.ends_with("link is a symbolic link to a file that does not exist"));
    }
    fs::write(&target, "mine").unwrap();
    assert!(download(&link, false).await.unwrap_err().contains("--force"));
    download(&link, true).await.unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&target).unwrap(), THEIRS);
    assert_eq!(entries(dir.path()), ["link", "target"]);
    symlink("/dev/null", dir.path().join("null")).unwrap();
    download(&dir.path().join("null"), false).await.unwrap();
}

#[tokio::test]
async fn devices_and_fifos_are_written_to_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for replace in [false, true] {
        download(Path::new("/dev/null"), replace).await.unwrap();
        let from = fifo.clone();
        let reader = tokio::task::spawn_blocking(move || fs::read(from).unwrap());
        download(&fifo, replace).await.unwrap();
        assert_eq!(reader.await.unwrap(), THEIRS);
    }
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    assert_eq!(entries(dir.path()), ["fifo"]);
}

#[tokio::test]
async fn directories_and_sockets_are_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::create_dir(dir.path().join("demo.tar")).unwrap();
    for replace in [false, true] {
        let refused = download(&socket, replace).await.unwrap_err();
        assert!(refused.ends_with("socket is a socket"), "{refused}");
        let refused = download(dir.path(), replace).await.unwrap_err();
        assert!(refused.ends_with("demo.tar is a directory"), "{refused}");
    }
    drop(listener);
    assert_eq!(entries(dir.path()), ["demo.tar", "socket"]);
}

#[tokio::test]
async fn a_terminal_gets_nothing_binary() {
    let pty = openpty(None, None).unwrap();
    let terminal = nix::unistd::ttyname(&pty.slave).unwrap();
    let refused = download(&terminal, true).await.unwrap_err();
    assert!(refused.contains(" is a terminal, and this is binary"), "{refused}");
    let file = terminal.to_str();
    let text = Download { name: "a.txt", file, replace: false, is_binary: false };
    let kept = text.keep(async |to| {
        to.write_all(THEIRS).await.unwrap();
        to.flush().await.unwrap();
        Ok(6)
    });
    assert!(kept.await.is_ok());
    let mut shown = [0; 6];
    fs::File::from(pty.master).read_exact(&mut shown).unwrap();
    assert_eq!(shown, *THEIRS, "and nothing before it");
}

#[tokio::test]
async fn errors_name_the_file_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for (path, why) in [("absent/a.tar", "No such file"), ("file/a.tar", "not a directory")] {
        let refused = download(&dir.path().join(path), true).await.unwrap_err();
        let start = format!("cannot write {}/{path}: ", dir.path().display());
        let said = refused.strip_prefix(&start).unwrap_or_default();
        assert!(said.starts_with(why) && !said.contains('/'), "{refused}");
    }
}
