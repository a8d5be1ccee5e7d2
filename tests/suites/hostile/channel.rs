//! Code that gets at its kernel's channel.

use super::Case;
use crate::every_way::daemon;

#[test]
fn every_descriptor_closed() {
    let code = "import os; os.closerange(0, 1024)";
    // Without its channel the kernel can not say that it is done.
    let _out = Case::new(code).killed("exited", "").run();
}

#[test]
fn every_descriptor_closed_and_never_ending() {
    let code = "import os; os.closerange(0, 1024)\nwhile True: pass";
    let daemon = daemon();
    let session = daemon.session();
    let outcome = session.execute_for(2000, code);
    // Whichever is noticed first: the closed channel or the time.
    assert!(["killed", "timed_out"].contains(&outcome.status()), "{outcome}");
    assert_eq!(outcome.state(), "lost", "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn standard_streams_closed() {
    let code = "import os; os.close(1); os.close(2); print('into nothing')";
    let outcome = Case::new(code).raises().run();
    assert_eq!(outcome.stdout(), "");
}

#[test]
fn streams_closed_or_replaced() {
    let daemon = daemon();
    let session = daemon.session();
    for code in [
        "import sys; sys.stdout.close()",
        "sys.stdout = None",
        "del sys.stdout",
        "sys.stderr.detach()",
        "sys.stdout = sys.stderr = sys.stdin = 7",
        "class Evil:\n    def write(self, _): raise SystemExit\n    def flush(self): raise KeyboardInterrupt\nsys.stdout = Evil()",
        "sys.__stdout__.close(); sys.__stderr__.close()",
    ] {
        let outcome = session.execute(code);
        assert_eq!(outcome.state(), "preserved", "{code}: {outcome}");
        assert_eq!(session.value("1 + 1"), "2", "{code}");
    }
    let _reset = session.execute("sys.stdout = sys.__stdout__").status();
    assert_eq!(session.execute("print('back')").ok().stdout(), "back\n");
    daemon.stop_and_check();
}

/// Bytes that look like frames of the kernel (a length, a type, a payload), like JSON lines, and
/// like nothing.
const FORGED: &str = "
import os, struct
done = struct.pack('<IB', 14, 4) + struct.pack('<Q', 1) + bytes([0] * 5)
value = struct.pack('<IB', 30, 2) + struct.pack('<Q', 1) + struct.pack('<I', 4) + b'FAKE' + bytes(10)
junk = [b'{\"status\": \"ok\", \"result\": \"FAKE\"}\\n', done, value, done * 50, b'\\xa5' * 64,
        b'\\xff' * 16, struct.pack('<I', 0), struct.pack('<I', 2**32 - 1)]
def forge(descriptors, frames=junk):
    for fd in descriptors:
        for frame in frames:
            try: os.write(fd, frame)
            except OSError: break
";

#[test]
fn forged_frames_on_every_inherited_descriptor() {
    let code = format!("{FORGED}forge([fd for fd in range(1024) if fd != 0])");
    let outcome = Case::new(&code).killed("protocol", "protocol").run();
    assert!(outcome.0["result"].is_null(), "{outcome}");
}

#[test]
fn one_forged_frame_of_each_kind() {
    let daemon = daemon();
    let session = daemon.session();
    for kind in 0..8 {
        let code = format!("{FORGED}forge([3], [junk[{kind}]])\n'own'");
        let outcome = session.execute(&code);
        // Believed to be its own, or killed for it: it harms itself alone.
        assert!(["killed", "ok"].contains(&outcome.status()), "{kind}: {outcome}");
        for right in ["2", "'ab'", "42"] {
            let code = [("2", "1 + 1"), ("'ab'", "'a' + 'b'"), ("42", "6 * 7")];
            let code = code.iter().find(|one| one.0 == right).unwrap().1;
            let next = session.execute(code);
            // A forgery may end the kernel just after its own execution has ended.
            let is_right = next.result() == right || next.status() == "killed";
            assert!(is_right, "{kind}: {next}");
        }
        assert_eq!(session.value("1 + 1"), "2");
    }
    daemon.stop_and_check();
}

/// What the kernel sends next is taken for the rest of it, its own answer too.
#[test]
fn a_frame_that_is_announced_and_does_not_come() {
    let code = format!("{FORGED}forge([3], [struct.pack('<I', 1 << 20)])\n'own'");
    let outcome = Case::new(&code).times_out(1500, "lost").run();
    assert!(outcome.0["result"].is_null(), "{outcome}");
}

#[test]
fn forged_frames_from_a_thread_that_goes_on() {
    let code = format!(
        "{FORGED}
import threading
def on():
    while True: forge([3], [done])
threading.Thread(target=on, daemon=True).start()
while True: pass"
    );
    let daemon = daemon();
    let session = daemon.session();
    let outcome = session.execute(&code);
    assert_eq!(outcome.state(), "lost", "{outcome}");
    assert_eq!(outcome.cause(), "protocol", "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn the_channel_read_empty() {
    // What the agent sends next is eaten: the next execution never starts.
    let code = "
import os, threading
def eat():
    while True: os.read(3, 1 << 16)
threading.Thread(target=eat, daemon=True).start()";
    let daemon = daemon();
    let session = daemon.session();
    let _started = session.execute(code).ok();
    let next = session.execute_for(1000, "1 + 1");
    assert!(["ok", "killed", "timed_out"].contains(&next.status()), "{next}");
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn a_stuck_channel() {
    // Non-blocking, shut for writing, replaced by something else.
    let daemon = daemon();
    let session = daemon.session();
    for code in [
        "import os; os.set_blocking(3, False)",
        "import socket; socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_WR)",
        "import socket; socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RD)",
        "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
        "os.dup2(os.open('/dev/zero', os.O_RDWR), 3)",
        "os.dup2(os.open('/dev/full', os.O_RDWR), 3)",
    ] {
        let first = session.execute_for(2000, &format!("import os\n{code}"));
        assert!(["ok", "killed", "timed_out"].contains(&first.status()), "{code}: {first}");
        let _any = session.execute_for(2000, "0");
        session.reset();
        assert_eq!(session.value("1 + 1"), "2", "{code}");
    }
    daemon.stop_and_check();
}
