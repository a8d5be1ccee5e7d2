//! What is left running in a session, against the processes that start there.

use serde_json::json;
use vivarium_tests::program;

use crate::every_way::setup;

/// Opens the memory of each process to come for writing, as soon as it can, and notes which seccomp
/// mode that process was in then. Tells it when it was caught in its filter, so that it may end.
const TAKE_OVER: &str = r"
import os, sys
pid = os.getpid() + 1
print(flush=True)
while True:
    try:
        memory = os.open(f'/proc/{pid}/mem', os.O_RDWR)
        with open(f'/proc/{pid}/status') as status:
            mode = next(line.split()[1] for line in status if line.startswith('Seccomp:'))
    except OSError:
        continue
    os.close(memory)
    with open('caught', 'a') as caught:
        caught.write(f'{mode}\n')
    if mode == '2':
        open(f'caught.{pid}', 'w').close()
        pid += 1
";

/// Lives until it was caught, without starting a process.
const PREY: &str = "while ! [ -e caught.$$ ]; do :; done";

const STARTS: usize = 20;

/// With Landlock a process can not be traced by one of an older domain, and with ids of its own the
/// new process is another user for long: so without.
#[test]
fn a_starting_process_can_not_be_taken_over_before_its_filter() {
    let daemon = setup().runner(program::nobody()).without(&["landlock"]).start();
    let session = daemon.session();
    let start = format!(
        "import subprocess, sys\n\
         left = subprocess.Popen([sys.executable, '-c', {TAKE_OVER:?}], stdout=subprocess.PIPE)\n\
         left.stdout.readline()"
    );
    assert_eq!(session.execute(&start).ok().stderr(), "");
    for _ in 0..STARTS {
        assert_eq!(session.command(&json!({"argv": ["sh", "-c", PREY]})).ok().stderr(), "");
    }
    // That each was caught in the end is the control.
    let caught = session.execute("print(open('caught').read(), end='')").ok();
    assert_eq!(caught.stdout(), "2\n".repeat(STARTS));
}
