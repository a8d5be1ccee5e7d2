//! Commands of the runtime: WebAssembly files, run by what is confined as a kernel is.

use std::collections::BTreeMap;
use std::fs;

use vivarium_tests::http::Client;
use vivarium_tests::outcome::Outcome;

use super::*;

/// Its standard input, then its arguments, each ended by a zero byte.
const ECHO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $arguments (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func $print (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (block $end (loop $more
      (i32.store (i32.const 0) (i32.const 4096))
      (i32.store (i32.const 4) (i32.const 1000))
      (br_if $end (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br_if $end (i32.eqz (i32.load (i32.const 8))))
      (call $print (i32.const 4096) (i32.load (i32.const 8)))
      (br $more)))
    (drop (call $sizes (i32.const 16) (i32.const 20)))
    (drop (call $arguments (i32.const 64) (i32.const 65536)))
    (call $print (i32.const 65536) (i32.load (i32.const 20)))))"#;

/// Ends with status 7.
const STATUS: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (call $exit (i32.const 7))))"#;

/// Prints the file that its argument names, by the preopened directory that the environment's first variable
/// ends with the number of. The status is WASI's error.
const OPEN: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $arguments (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (func (export "_start") (local $at i32) (local $error i32)
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $arguments (i32.const 64) (i32.const 1024)))
    ;; A digit, and behind it the path.
    (local.set $at (i32.load (i32.const 68)))
    (local.set $error (call $open
      (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)) (i32.const 1)
      (i32.add (local.get $at) (i32.const 1))
      (i32.sub (i32.sub (i32.add (i32.const 1024) (i32.load (i32.const 4))) (local.get $at)) (i32.const 2))
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 8)))
    (if (local.get $error) (then (call $exit (local.get $error))))
    (i32.store (i32.const 16) (i32.const 65536))
    (i32.store (i32.const 20) (i32.const 65536))
    (drop (call $read (i32.load (i32.const 8)) (i32.const 16) (i32.const 1) (i32.const 20)))
    (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8)))))"#;

const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start") (loop (br 0))))"#;

/// Takes memory until there is no more, touching all of it. The status is the number of GiB that it got, in eighths.
const GREEDY: &str = r#"(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 0)
  (func (export "_start") (local $eighths i32)
    (block $refused (loop $more
      (br_if $refused (i32.eq (memory.grow (i32.const 2048)) (i32.const -1)))
      (memory.fill (i32.mul (local.get $eighths) (i32.const 134217728)) (i32.const 1) (i32.const 134217728))
      (local.set $eighths (i32.add (local.get $eighths) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $eighths) (i32.const 4)))))
    (call $exit (local.get $eighths))))"#;

const TRAP: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "_start") unreachable))"#;

/// A component of the world wasi:cli/command; it prints, and fails if it cannot.
const COMPONENT: &str = r#"(component
  (import "wasi:io/error@0.2.0" (instance $errors (export "error" (type (sub resource)))))
  (alias export $errors "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $output (sub resource)))
    (alias outer 1 $error (type $outer-error))
    (export "error" (type $own-error (eq $outer-error)))
    (type $failure (variant (case "last-operation-failed" (own $own-error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $failure)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $output)) (param "contents" (list u8))
        (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output (type $outer-output))
    (export "output-stream" (type $own-output (eq $outer-output)))
    (export "get-stdout" (func (result (own $own-output))))))
  (core module $memories (memory (export "memory") 1))
  (core instance $memory (instantiate $memories))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower
    (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory (core memory $memory "memory"))))
  (core module $code
    (import "host" "memory" (memory 1))
    (import "host" "get" (func $get (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (data (i32.const 0) "of a component\n")
    (func (export "run") (result i32)
      (call $write (call $get) (i32.const 0) (i32.const 15) (i32.const 64))
      (i32.load8_u (i32.const 64))))
  (core instance $program (instantiate $code (with "host" (instance
    (export "memory" (memory $memory "memory"))
    (export "get" (func $get))
    (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $program "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $command)))"#;

/// The same, and fails.
const FAILING: &str = r#"(component
  (core module $code (func (export "run") (result i32) (i32.const 1)))
  (core instance $program (instantiate $code))
  (func $run (result (result)) (canon lift (core func $program "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $command)))"#;

/// Makes a file in the workdir.
#[track_caller]
fn put(daemon: &Daemon, session: &Session<'_>, name: &str, content: &[u8]) {
    let path = session.path(&format!("/files/{name}"));
    let kind = [("Content-Type", "application/octet-stream")];
    let sent = Client::connect(&daemon.unix()).send("PUT", &path, &kind, Some(content));
    assert!(sent.status < 300, "{}", String::from_utf8_lossy(&sent.body));
}

/// A session with a program in its workdir.
#[track_caller]
fn with_program<'d>(daemon: &'d Daemon, spec: &serde_json::Value, text: &str) -> Session<'d> {
    let session = daemon.any_session(spec);
    put(daemon, &session, "p.wasm", &wat::parse_str(text).unwrap());
    session
}

#[track_caller]
fn of_light<'d>(daemon: &'d Daemon, text: &str) -> Session<'d> {
    with_program(daemon, &json!({"environment": "light"}), text)
}

#[track_caller]
fn run(session: &Session<'_>, arguments: &[&str]) -> Outcome {
    let argv = [&["p.wasm"], arguments].concat();
    session.command(&json!({"argv": argv}))
}

#[track_caller]
fn exited(outcome: &Outcome, code: i64) {
    assert_eq!(outcome.0["exit_code"], code, "{outcome}");
}

#[test]
fn a_module_has_its_input_arguments_output_and_status() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let session = of_light(&daemon, ECHO);
    let input = "line\n".repeat(1000);
    let asked = json!({"argv": ["p.wasm", "a b", "", "\u{e9}"], "stdin": input});
    let said = session.command(&asked);
    exited(&said, 0);
    assert_eq!(said.stdout(), format!("{input}p.wasm\0a b\0\0\u{e9}\0"));
    assert_eq!(said.stderr(), "");
    exited(&run(&of_light(&daemon, STATUS), &[]), 7);
    let trap = run(&of_light(&daemon, TRAP), &[]);
    exited(&trap, 134);
    assert!(trap.stderr().contains("unreachable"), "{trap}");
    daemon.stop_and_check();
}

#[test]
fn a_component_runs_as_a_module_does() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let said = run(&of_light(&daemon, COMPONENT), &[]);
    exited(&said, 0);
    assert_eq!((said.stdout(), said.stderr()), ("of a component\n", ""));
    exited(&run(&of_light(&daemon, FAILING), &[]), 1);
}

/// Errors of WASI preview 1 by their numbers: 44 noent, 63 perm, 76 notcapable.
#[test]
fn a_program_sees_the_workdir_and_tmp_and_no_other_file() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let session = of_light(&daemon, OPEN);
    let made = "import os\nopen('in', 'w').write('inside')\nos.mkdir('d')\nopen('/tmp/t', 'w').write('tmp')\n\
                os.symlink('in', 'link'); os.symlink('../../etc/passwd', 'd/up'); os.symlink('../../proc', 'd/proc')";
    let _made = session.execute(made).ok();
    let open = |what: &str| run(&session, &[what]);
    // The working directory, the workdir and /tmp are 3, 4 and 5.
    for (path, content) in [
        ("3in", "inside"),
        ("3link", "inside"),
        ("4in", "inside"),
        ("5t", "tmp"),
        ("3d/../in", "inside"),
    ] {
        let said = open(path);
        exited(&said, 0);
        assert_eq!(said.stdout(), content, "{path}");
    }
    for path in [
        "3../etc/passwd",
        "3/etc/passwd",
        "4../etc/passwd",
        "5../etc/passwd",
        "3d/up",
        "3d/proc/self/maps",
        "3d/../../etc/passwd",
    ] {
        let said = open(path);
        let code = said.0["exit_code"].as_i64().unwrap();
        assert!([63, 76].contains(&code) && said.stdout().is_empty(), "{path}: {said}");
    }
    exited(&open("3none"), 44);
    exited(&open("6in"), 8);
    // Of another working directory, `.` is that.
    let argv = json!({"argv": ["../p.wasm", "3in"], "cwd": "d"});
    exited(&session.command(&argv), 44);
    let argv = json!({"argv": ["../p.wasm", "4in"], "cwd": "d"});
    exited(&session.command(&argv), 0);
    // Through a link it would be another directory of the session's root.
    let argv = json!({"argv": ["/workspace/p.wasm", "3version"], "cwd": "d/proc"});
    let said = session.command(&argv);
    exited(&said, 126);
    assert!(said.stderr().contains("the working directory is not in /workspace or /tmp"), "{said}");
    assert_eq!(said.stdout(), "");
}

#[test]
fn time_and_memory_have_limits_and_the_session_goes_on() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let session = of_light(&daemon, ENDLESS);
    let _set = session.execute("kept = 7").ok();
    let ended = session.command(&json!({"argv": ["p.wasm"], "timeout_ms": 300}));
    assert_eq!((ended.status(), ended.cause()), ("timed_out", "wall_time"), "{ended}");
    assert_eq!(session.value("kept"), "7");
    let limited = json!({"environment": "light", "limits": {"max_memory_mb": 300}});
    let session = with_program(&daemon, &limited, GREEDY);
    exited(&run(&session, &[]), 2);
    exited(&run(&of_light(&daemon, GREEDY), &[]), 4);
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn what_is_no_program_is_refused_in_one_sentence() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let session = of_light(&daemon, ECHO);
    let whole = wat::parse_str(ECHO).unwrap();
    let library = wat::parse_str("(module (func (export \"f\")))").unwrap();
    let asks = "(module (import \"env\" \"f\" (func)) (func (export \"_start\")))";
    let asks = wat::parse_str(asks).unwrap();
    let mut invalid = whole.clone();
    // The version is followed by the id of the first section.
    invalid[8] = 99;
    let compiled = fs::read(built.join("python.cwasm")).unwrap();
    let no_wasm = "it is no WebAssembly module or component";
    let files: BTreeMap<&str, (&[u8], &str)> = BTreeMap::from([
        ("empty.wasm", (&b""[..], no_wasm)),
        ("text.wasm", (&b"(module)"[..], no_wasm)),
        ("script.wasm", (&b"#!/bin/sh\necho no\n"[..], no_wasm)),
        ("head.wasm", (&whole[..6], no_wasm)),
        ("truncated.wasm", (&whole[..whole.len() - 5], "unexpected end")),
        ("invalid.wasm", (&invalid, "malformed section id: 99")),
        ("library.wasm", (&library, "the module exports no function _start")),
        ("asks.wasm", (&asks, "unknown import")),
        // Code of this CPU, as the engine itself loads it.
        ("compiled.wasm", (&compiled[..1 << 20], no_wasm)),
    ]);
    for (name, (content, why)) in files {
        put(&daemon, &session, name, content);
        let said = session.command(&json!({"argv": [name]}));
        exited(&said, 126);
        let line = said.stderr();
        assert!(line.starts_with(&format!("{name}: ")) && line.contains(why), "{said}");
        assert_eq!(line.matches('\n').count(), 1, "{said}");
    }
    let missing = session.command(&json!({"argv": ["none.wasm"]}));
    exited(&missing, 127);
    let _made = session.execute("__import__('os').mkdir('dir.wasm')").ok();
    let directory = session.command(&json!({"argv": ["dir.wasm"]}));
    exited(&directory, 126);
    assert!(directory.stderr().contains("it is no regular file"), "{directory}");
    exited(&run(&session, &[]), 0);
}

#[test]
fn one_request_runs_a_program_too_and_other_commands_are_refused() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let session = of_light(&daemon, STATUS);
    for other in [
        json!({"argv": ["/bin/true"]}),
        json!({"shell": "./p.wasm"}),
        json!({"argv": ["p.wasm/x"]}),
    ] {
        let refused = session.request("POST", "/commands", Some(&other));
        let detail = refused.expect_problem(409, "not_in_runtime")["detail"].to_string();
        assert!(detail.contains("commands other than .wasm files are not available"), "{detail}");
    }
    let data = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        wat::parse_str(STATUS).unwrap(),
    );
    let asked = json!({"environment": "light", "argv": ["p.wasm"], "files": [{"name": "p.wasm", "data": data}]});
    exited(&daemon.run(&asked), 7);
}

/// Native code in the place of what runs commands.
#[test]
fn what_runs_commands_is_confined_as_a_kernel_is() {
    let Some(probe) = Probe::get() else { return };
    let probe = probe.with_runner();
    let runner = probe.path().with_file_name("engine-runner");
    let attempts = [
        ("fork", "EPERM", "works"),
        ("vfork", "EPERM", "works"),
        ("socket unix", "EPERM", "works"),
        ("socketpair", "EPERM", "works"),
        ("tgkill", "EPERM", "works"),
        ("exec /bin/true", "EPERM", "ENOENT"),
        ("exec_start", "EBADF", "EBADF"),
        ("take_start", "EBADF", "EBADF"),
    ];
    let say = |session: &Session<'_>, what: &str| {
        let said = session.command(&json!({"argv": ["p.wasm", what]}));
        exited(&said, 0);
        said.stdout().trim_end().to_owned()
    };
    let daemon = probe.setup().start();
    let session = light(&daemon);
    for (what, refused, _) in attempts {
        assert_eq!(say(&session, what), refused, "{what}");
    }
    for (path, right) in
        [("/etc/passwd", "EACCES"), ("/bin/sh", "ENOENT"), ("/usr/bin/python3", "ENOENT")]
    {
        assert_eq!(say(&session, &format!("read {path}")), right, "{path}");
    }
    assert_eq!(say(&session, "write own"), "works");
    assert_eq!(say(&session, &format!("write {}", runner.display())), "EACCES");
    let arguments = say(&session, "arguments");
    assert!(arguments.starts_with("run "), "{arguments}");
    assert!(arguments.ends_with(" /workspace /tmp -- p.wasm arguments"), "{arguments}");

    let daemon = probe.setup().without(&["seccomp"]).start();
    let session = light(&daemon);
    for (what, _, allowed) in attempts {
        assert_eq!(say(&session, what), allowed, "control: {what}");
    }
}
