//! `vivarium homes` and `vivarium volumes`.

use vivarium_tests::program;

use crate::{run, setup};

#[test]
fn command_line_makes_lists_reads_and_deletes() {
    let daemon = setup(Default::default(), "").start();
    let url = daemon.unix().url();
    let call = |arguments: &[&str]| program::run(&[arguments, &["--url", &url]].concat());
    assert_eq!(call(&["volumes", "create", "v"]).expect_code(0).stdout(), "v: created\n");
    let made = call(&["sessions", "create", "a", "--home", "session", "--volume", "v:/mnt/in"]);
    assert_eq!(made.expect_code(0).stdout(), "a\n");
    let session = vivarium_tests::Session::named(&daemon, "a");
    run(&session, "open('/home/sandbox/f', 'w').write('kept'), open('/mnt/in/g', 'w').write('x')");
    assert_eq!(call(&["homes", "get", "a", "f"]).expect_code(0).stdout(), "kept");
    assert!(call(&["homes", "delete", "a"]).expect_code(1).stderr().contains("home_in_use"));
    assert!(call(&["homes", "list"]).expect_code(0).stdout().contains("yes"));
    assert!(call(&["volumes", "files", "v"]).expect_code(0).stdout().ends_with(" g\n"));
    crate::end(&session);
    assert_eq!(call(&["volumes", "rm", "v", "g"]).expect_code(0).stdout(), "");
    assert_eq!(call(&["volumes", "files", "v", "--json"]).expect_code(0).stdout(), "[]\n");
    assert_eq!(call(&["homes", "delete", "a"]).expect_code(0).stdout(), "a: deleted\n");
    assert_eq!(call(&["homes", "list", "--json"]).expect_code(0).stdout(), "[]\n");
}
