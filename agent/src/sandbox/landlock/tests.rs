use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Command;

use vivarium_protocol::layer::{Layer, Status};
use vivarium_protocol::policy::Network;

use super::super::LayerCode;
use super::{Landlock, fixture};

fn refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES))
}

fn write(path: &str) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Each action succeeds before the layer is applied, and after it exactly as the list says.
#[test]
fn only_what_is_listed_can_be_opened() {
    fixture::in_child(concat!(module_path!(), "::only_what_is_listed_can_be_opened"), || {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        File::open("/").unwrap();
        fs::read("/proc/1/stat").unwrap();
        Command::new("/bin/cp").arg("/bin/true").arg(outside.path()).status().unwrap();
        assert!(Command::new(outside.path().join("true")).status().unwrap().success());
        fs::write("/dev/shm/vivarium-landlock", "").unwrap();
        fs::remove_file("/dev/shm/vivarium-landlock").unwrap();

        let context = fixture::context(&[Layer::Landlock], Network::None, inside.path());
        Landlock.restrict(&context).unwrap();

        assert!(refused(File::open("/")));
        assert!(refused(fs::read("/proc/1/stat")), "another process");
        assert!(refused(fs::read(&secret)));
        assert!(refused(fs::write(&secret, "")));
        assert!(refused(fs::write(outside.path().join("new"), "")));
        assert!(refused(fs::remove_file(&secret)));
        assert!(refused(fs::rename(&secret, inside.path().join("moved"))) || secret.exists());
        assert!(
            refused(Command::new(outside.path().join("true")).status()),
            "running from outside"
        );
        assert!(refused(fs::write("/dev/shm/vivarium-landlock", "")));
        assert!(refused(write("/dev/urandom")));
        std::os::unix::fs::symlink(&secret, inside.path().join("link")).unwrap();
        assert!(refused(fs::read(inside.path().join("link"))), "through a link");
        allowed(inside.path());
        assert_eq!(Landlock.verify(&context).unwrap().status, Status::Partial);
        // Nothing outside can be removed any more, so the parent directory's test ends here.
        std::mem::forget((outside, inside));
    });
}

/// In a session noexec mounts hide this. /tmp and /dev/shm are the host's here, and the rules those
/// of a session with the mounts layer.
#[test]
fn nothing_is_executed_from_scratch() {
    fixture::in_child(concat!(module_path!(), "::nothing_is_executed_from_scratch"), || {
        let inside = tempfile::tempdir_in("/var/tmp").unwrap();
        let scratch = ["/tmp", "/dev/shm"].map(|place| tempfile::tempdir_in(place).unwrap());
        let run = |directory: &Path| {
            let program = directory.join("true");
            fs::copy("/bin/true", &program)?;
            Command::new(program).status()
        };
        let [in_tmp, _] = scratch.each_ref().map(|place| run(place.path()));
        assert!(in_tmp.is_ok_and(|code| code.success()), "the host's /tmp is noexec");

        let layers = [Layer::Mounts, Layer::Landlock];
        let context = fixture::context(&layers, Network::None, inside.path());
        Landlock.restrict(&context).unwrap();

        for place in &scratch {
            // Written, and not executed. A host may have its /dev/shm noexec.
            assert!(refused(run(place.path())), "{}", place.path().display());
            assert_eq!(
                fs::read(place.path().join("true")).unwrap(),
                fs::read("/bin/true").unwrap()
            );
        }
        assert!(run(inside.path()).unwrap().success());
    });
}

fn allowed(workdir: &Path) {
    write("/dev/null").unwrap();
    File::open("/dev/urandom").unwrap();
    fs::read("/proc/self/status").unwrap();
    fs::read("/proc/meminfo").unwrap();
    fs::read_dir("/usr/lib").unwrap();
    assert!(Command::new("/bin/true").status().unwrap().success());
    let (one, two) = (workdir.join("one"), workdir.join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    fs::write(one.join("file"), "text").unwrap();
    fs::rename(one.join("file"), two.join("file")).unwrap();
    fs::hard_link(two.join("file"), one.join("again")).unwrap();
    assert_eq!(fs::read(one.join("again")).unwrap(), b"text");
    Command::new("/bin/cp").arg("/bin/true").arg(workdir).status().unwrap();
    assert!(Command::new(workdir.join("true")).status().unwrap().success());
    fs::remove_dir_all(&two).unwrap();
}

#[test]
fn denials_are_not_logged() {
    fixture::in_child(concat!(module_path!(), "::denials_are_not_logged"), || {
        let workdir = tempfile::tempdir().unwrap();
        let context = fixture::context(&[Layer::Landlock], Network::None, workdir.path());
        let rules = super::rules::of(&context).unwrap();
        let status = super::enforce(&context, rules).unwrap();
        // Before ABI 7 there is no logging, and the library leaves the flags out.
        let kernel_logs = super::abi::running().unwrap() >= 7;
        assert_eq!(status.log_same_exec, !kernel_logs);
        assert_eq!(status.log_subdomains, !kernel_logs);
        assert!(!status.log_new_exec);
        std::mem::forget(workdir);
    });
}

#[test]
fn a_workdir_that_is_missing_is_an_error() {
    let missing = Path::new("/nonexistent/workdir");
    let context = fixture::context(&[Layer::Landlock], Network::Loopback, missing);
    let error = super::rules::of(&context).map(|_| ()).map_err(|error| error.to_string());
    assert!(error.is_err_and(|text| text.contains("/nonexistent/workdir")));
}

#[test]
fn connections_are_denied_where_there_is_no_network() {
    use landlock::{Access, AccessNet};
    let tcp = AccessNet::BindTcp | AccessNet::ConnectTcp;
    assert_eq!(super::denied_network(Network::None), Some(AccessNet::from_all(super::NEWEST)));
    assert!(AccessNet::from_all(super::NEWEST).contains(tcp));
    for network in [Network::Loopback, Network::Trusted, Network::Full] {
        assert_eq!(super::denied_network(network), None);
    }
}

/// Without the layer: a file that can be opened, and one that is not there.
#[test]
fn verification_fails_if_a_file_is_not_denied() {
    for (layers, found) in
        [(&[Layer::Landlock][..], "opened"), (&[Layer::Landlock, Layer::Mounts], "No such file")]
    {
        let context = fixture::context(layers, Network::None, Path::new("/"));
        let read_back = Landlock.verify(&context).map_err(|error| error.to_string());
        assert!(read_back.is_err_and(|text| text.contains(found)), "{layers:?}");
    }
}

#[test]
fn verification_fails_if_the_workdir_is_no_directory() {
    super::open_directory(Path::new("/")).unwrap();
    assert!(super::open_directory(Path::new("/proc/self/exe")).is_err());
}

#[test]
fn an_error_is_told_with_its_cause_and_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        #[source]
        source: Option<Box<Failed>>,
    }
    let failed = |text, source| Failed { text, source: Some(Box::new(source)) };
    let cause = || Failed { text: "no space", source: None };
    assert_eq!(super::with_cause(&failed("add a rule", cause())), "add a rule: no space");
    assert_eq!(super::with_cause(&failed("write: no space", cause())), "write: no space");
}
