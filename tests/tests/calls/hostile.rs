//! Code that writes to the pipes of its calls itself.

use serde_json::json;
use vivarium_tests::Daemon;

use super::{answer, echo_all, result, start, until};

/// The two ends that a kernel has, as code finds them: the one to write to, and the one to read from.
const ENDS: &str = "
import os
def ends():
    found = []
    for name in os.listdir('/proc/self/fd'):
        fd = int(name)
        try: is_pipe = fd > 3 and os.readlink(f'/proc/self/fd/{fd}').startswith('pipe:')
        except OSError: continue
        if is_pipe: found.append(fd)
    flags = {fd: int(open(f'/proc/self/fdinfo/{fd}').read().split()[3], 8) & 3 for fd in found}
    return [fd for fd in found if flags[fd] == 1][0], [fd for fd in found if flags[fd] == 0][0]
w, r = ends()
";

#[test]
fn nonsense_ends_the_tools_of_the_execution_and_nothing_else() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for bytes in [
        "b'\\xff' * 8",
        "b'\\x00' * 4",
        "b'\\x05\\x00\\x00\\x00\\x09abcd'",
        "b'\\x06\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\xff'",
        "(2**21).to_bytes(4, 'little') + b'x' * 2**16",
        "bytes(range(256)) * 256",
        // A name that is no text, and a number that waits already.
        "b'\\x07\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x01\\xff'",
        "b'\\x0c\\x00\\x00\\x00\\x01\\x07\\x00\\x00\\x00\\x04echo{}' * 2",
    ] {
        let code = format!(
            "{ENDS}
try: os.write(w, {bytes})
except OSError: pass
try: tools.echo()
except vivarium.ToolUnavailable as error: found = str(error)
found"
        );
        let mut events = start(&session, &code);
        let repr = until(&mut events, "result").data["repr"].clone();
        assert!(repr.as_str().unwrap().contains("takes no more calls"), "{bytes}: {repr}");
        assert_eq!(until(&mut events, "done").data["state"], "preserved");
    }
    let (done, calls) = echo_all(&session, &mut start(&session, "tools.echo(n=1)"));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1), "the next execution has tools");
    daemon.stop_and_check();
}

#[test]
fn code_that_closes_its_ends_ends_its_calls() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = format!(
        "{ENDS}
import threading
def work():
    try: tools.echo()
    except vivarium.ToolUnavailable as error: found.append(str(error))
found = []
thread = threading.Thread(target=work)
thread.start()
while not os.path.exists('go'): pass
os.close(w)
thread.join()
len(found)"
    );
    let mut events = start(&session, &code);
    let call = events.expect("call");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    assert_eq!(until(&mut events, "call_ended").data["outcome"], "ended");
    assert_eq!(until(&mut events, "result").data["repr"], "1");
    answer(&session, &call, &json!({"result": 1})).expect_problem(410, "call_over");
    daemon.stop_and_check();
}

#[test]
fn code_that_never_reads_its_answers_is_read_no_further() {
    let daemon = Daemon::start();
    let session = daemon.session();
    // Refusals, of which there may be any number: at some point its own writes wait.
    let code = format!(
        "{ENDS}
import select
os.set_blocking(w, False)
frame = b'\\x0a\\x00\\x00\\x00\\x01\\x01\\x00\\x00\\x00\\x04none'
poll = select.poll()
poll.register(w, select.POLLOUT)
written = 0
while poll.poll(1000):
    try: written += os.write(w, frame)
    except BlockingIOError: pass
written < 2**24"
    );
    let mut events = start(&session, &code);
    assert_eq!(until(&mut events, "result").data["repr"], "True");
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    assert_eq!(session.value("6 * 7"), "42");
    daemon.stop_and_check();
}

#[test]
fn numbers_are_each_execution_s_own() {
    let daemon = Daemon::start();
    let (one, other) = (daemon.session(), daemon.session());
    let mut waiting = start(&one, "tools.echo(whose='first')");
    let call = waiting.expect("call");
    // Another session writes calls and withdrawals of any number.
    let code = format!(
        "{ENDS}
for number in range(20):
    os.write(w, b'\\x05\\x00\\x00\\x00\\x02' + number.to_bytes(4, 'little'))
tools.echo(whose='second')"
    );
    let mut events = start(&other, &code);
    let second = events.expect("call");
    assert_eq!(second.data["call_id"], call.data["call_id"], "each counts from 1");
    result(&other, &second, &json!(2));
    assert_eq!(until(&mut events, "result").data["repr"], "2");
    result(&one, &call, &json!(1));
    assert_eq!(until(&mut waiting, "result").data["repr"], "1");
    daemon.stop_and_check();
}

#[test]
fn children_have_no_calls_and_keep_nothing_open() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "import os, time
r, w = os.pipe()
if not os.fork():
    try: tools.echo()
    except vivarium.ToolUnavailable as error: os.write(w, str(error).encode())
    time.sleep(600)
os.read(r, 100), tools.echo(n=1)";
    let mut events = start(&session, code);
    let call = until(&mut events, "call");
    result(&session, &call, &json!("of the parent"));
    let repr = until(&mut events, "result").data["repr"].clone();
    assert!(repr.as_str().unwrap().contains("forked cannot call it"), "{repr}");
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    let (done, calls) = echo_all(&session, &mut start(&session, "tools.echo(n=1)"));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1));
    daemon.stop_and_check();
}

#[test]
fn calls_that_wait_take_no_more_than_they_may() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "import asyncio
async def call(n):
    try: return await tools.aio.echo(a='x' * 900_000, n=n)
    except vivarium.ToolRefused as error: return str(error)
r = await asyncio.gather(*(call(n) for n in range(10)))
{it for it in r if type(it) is str}, len([it for it in r if type(it) is not str])";
    let mut events = start(&session, code);
    let calls: Vec<_> = (0..9).map(|_| events.expect("call")).collect();
    for call in &calls {
        result(&session, call, &json!(null));
    }
    let repr = until(&mut events, "result").data["repr"].clone();
    assert!(repr.as_str().unwrap().contains("over the maximum of 8388608 bytes"), "{repr}");
    assert!(repr.as_str().unwrap().ends_with("9)"), "{repr}");
    daemon.stop_and_check();
}

/// Writes a call itself, and reads what comes of it.
const RAW: &str = "
import select
def frame(name, arguments, number=7):
    body = b'\\x01' + number.to_bytes(4, 'little') + bytes([len(name)]) + name + arguments
    return len(body).to_bytes(4, 'little') + body
def raw(*call):
    data = frame(*call)
    while data: data = data[os.write(w, data):]
    select.select([r], [], [])
    answer = os.read(r, 65536)
    return answer[9], answer[10:].decode()
";

#[test]
fn calls_that_code_writes_itself_are_checked_as_any() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let deep = "b'{\"a\":' + b'[' * 100_000 + b']' * 100_000 + b'}'";
    for (call, why) in [
        ("b'nobody', b'{}'".to_owned(), "there is no tool"),
        (format!("b'echo', {deep}"), "more than 64 deep"),
        ("b'echo', b'{\"a\":' + b'['*70 + b']'*70 + b'}'".to_owned(), "more than 64 deep"),
        ("b'echo', b'[1]'".to_owned(), "no object"),
        ("b'echo', b'{\"a\": \"\\xff\"}'".to_owned(), "no JSON"),
        ("b'echo', b''".to_owned(), "no JSON"),
        ("b'add', b'{\"n\": true}'".to_owned(), "not of type"),
    ] {
        let mut events = start(&session, &format!("{ENDS}{RAW}\nraw({call})"));
        let repr = events.expect("result").data["repr"].clone();
        let repr = repr.as_str().unwrap();
        assert!(repr.starts_with("(2, ") && repr.contains(why), "{call}: {repr}");
        assert_eq!(until(&mut events, "done").data["status"], "ok");
    }
    // The control: one that is right reaches the client, as one reading of it has it.
    let code = format!("{ENDS}{RAW}\nraw(b'echo', b'{{\"a\": 1, \"a\": 2}}')");
    let mut events = start(&session, &code);
    let call = events.expect("call");
    assert_eq!(call.data["arguments"], json!({"a": 2}));
    result(&session, &call, &json!("right"));
    assert_eq!(until(&mut events, "result").data["repr"], "(0, '\"right\"')");
    daemon.stop_and_check();
}

#[test]
fn code_that_answers_itself_deceives_nobody_else() {
    let daemon = Daemon::start();
    let session = daemon.session();
    // It may open its pipes anew only where it has the daemon's user id.
    let code = format!(
        "{ENDS}
body = b'\\x02' + (1).to_bytes(4, 'little') + b'\\x00' + b'\"forged\"'
try:
    own = os.open(f'/proc/self/fd/{{r}}', os.O_WRONLY)
    os.write(own, len(body).to_bytes(4, 'little') + body)
except PermissionError: own = None
first = tools.echo(forged=own is not None)
second = tools.echo(n=2)
first, second"
    );
    let mut events = start(&session, &code);
    let call = events.expect("call");
    let is_forged = call.data["arguments"]["forged"] == true;
    if !is_forged {
        result(&session, &call, &json!("right"));
    }
    let second = until(&mut events, "call");
    assert_eq!(second.data["arguments"], json!({"n": 2}));
    // For everybody else the first waits on.
    let waiting = session.request("GET", "/executions/1/calls", None).expect_success();
    assert_eq!(waiting["calls"].as_array().unwrap().len(), 1 + usize::from(is_forged));
    result(&session, &second, &json!(2));
    let found = if is_forged { "forged" } else { "right" };
    assert_eq!(until(&mut events, "result").data["repr"], format!("('{found}', 2)"));
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    let (status, code) = if is_forged { (410, "call_over") } else { (409, "call_answered") };
    answer(&session, &call, &json!({"result": 1})).expect_problem(status, code);
    daemon.stop_and_check();
}

#[test]
fn ends_that_code_keeps_are_of_no_use_after_its_execution() {
    let daemon = Daemon::start();
    let session = daemon.session();
    // The control: during it, even a child calls with them, as the execution that it is of.
    let code = format!(
        "{ENDS}{RAW}
kept = os.dup(w), os.dup(r)
child = os.fork()
if not child:
    os.write(kept[0], frame(b'echo', b'{{\"of\": \"a child\"}}'))
    os._exit(0)
os.waitpid(child, 0)
select.select([r], [], [])
os.read(r, 65536)[10:]"
    );
    let mut events = start(&session, &code);
    let call = events.expect("call");
    assert_eq!(call.data["arguments"], json!({"of": "a child"}));
    result(&session, &call, &json!(1));
    assert_eq!(until(&mut events, "result").data["repr"], "b'1'");
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    let code = "
try: os.write(kept[0], frame(b'echo', b'{}'))
except BrokenPipeError: found = 'broken'
found, os.read(kept[1], 1), tools.echo(n=1)";
    let (done, calls) = echo_all(&session, &mut start(&session, code));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1));
    assert_eq!(session.value("_"), "('broken', b'', {'n': 1})");
    daemon.stop_and_check();
}
