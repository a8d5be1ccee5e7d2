use std::io::Read;
use std::process::{Child, Command, Stdio};

use super::*;

/// Claims ids as a daemon does that is another process, until it is killed.
const OTHER: &str = "
import fcntl, os, signal, sys
first, last = map(int, sys.argv[1:])
file = os.memfd_create('other')
fcntl.lockf(file, fcntl.LOCK_EX, last - first + 1, 0x7669_7661_0000_0000 + first)
os.write(1, b'!')
while True: signal.pause()";

fn pair(first: u32) -> [SubordinateIds; 1] {
    [SubordinateIds { agent: first, kernel: first + 1 }]
}

fn other(first: u32, last: u32) -> Child {
    let (first, last) = (first.to_string(), last.to_string());
    let mut child = Command::new("python3")
        .args(["-c", OTHER, &first, &last])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn claim_is_released_when_its_process_is_killed() {
    let claims = Claims::new().unwrap();
    let mut other = other(3_100_000_000, 3_100_000_001);
    for (first, free) in [(3_100_000_000, false), (3_100_000_001, false), (3_100_000_002, true)] {
        assert_eq!(claims.claim(&pair(first)).unwrap(), free, "{first}");
    }
    assert!(claims.of_others().unwrap().contains(&(3_100_000_000, 3_100_000_001)));
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(claims.claim(&pair(3_100_000_000)).unwrap());
}

#[test]
fn failed_claim_releases_what_it_took() {
    let (one, two) = (Claims::new().unwrap(), Claims::new().unwrap());
    assert!(one.claim(&pair(3_200_000_000)).unwrap());
    let wanted = [pair(3_200_000_000), pair(3_200_000_002)].concat();
    assert!(!two.claim(&wanted).unwrap());
    assert!(one.claim(&pair(3_200_000_002)).unwrap(), "it had claimed that, and not the other");
    drop(one);
    assert!(two.claim(&wanted).unwrap());
}

#[test]
fn other_locks_are_not_taken_for_claims() {
    let at = |id: i64| BASE + id;
    let lock = |kind: &str, start: &str, end: &str| {
        parse(&format!("7: {kind} 214 00:01:1032 {start} {end}"))
    };
    let claim = "POSIX  ADVISORY  WRITE";
    let (start, end) = (at(1000).to_string(), at(1001).to_string());
    let right = Lock { pid: 214, inode: 1032, ids: (1000, 1001) };
    assert_eq!(lock(claim, &start, &end), Some(right));
    assert_eq!(lock(claim, &start, "EOF").unwrap().ids, (1000, u32::MAX));
    for kind in ["POSIX  ADVISORY  READ", "FLOCK  ADVISORY  WRITE", "-> POSIX  ADVISORY  WRITE"] {
        assert_eq!(lock(kind, &start, &end), None, "{kind}");
    }
    let behind = at(1 << 32).to_string();
    for (start, end) in [("0", "EOF"), ("x", "1"), (&*behind, "EOF")] {
        assert_eq!(lock(claim, start, end), None, "{start}");
    }
}

#[test]
fn processes_in_sessions_and_of_others_claim_nothing() {
    assert!(is_of_a_daemon(nix::unistd::getpid().as_raw()));
    assert!(is_below("Name:\tx\nNSpid:\t200\t2\n"));
    assert!(!is_below("Name:\tx\nNSpid:\t200\n") && !is_below(""));
    for nobody in [0, -1, i32::MAX] {
        assert!(!is_of_a_daemon(nobody), "{nobody}");
    }
}
