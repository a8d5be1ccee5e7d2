//! What code finds, and what comes of it.

use vivarium_tests::Daemon;

#[test]
fn state_lives_from_one_execution_to_the_next() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let _set = session.execute("import math\nx = 41\ndef more(n): return n + 1").ok();
    assert_eq!(session.value("more(x) + math.floor(0.5)"), "42");
    let second = session.execute("x += 1").ok();
    assert_eq!(second.0["result"], serde_json::Value::Null);
    assert_eq!(session.value("x"), "42");
    daemon.release();
}

#[test]
fn the_value_of_a_final_expression_is_returned() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for (code, repr, kind) in [
        ("1 + 1", "2", "int"),
        ("'a' * 3", "'aaa'", "str"),
        ("x = 3\nx", "3", "int"),
        ("x = 3; x + 1", "4", "int"),
        ("[1,\n 2]\n# a comment", "[1, 2]", "list"),
        (
            "import collections\ncollections.Counter('aa')",
            "Counter({'a': 2})",
            "collections.Counter",
        ),
        ("class Own:\n    def __repr__(self): return 'own'\nOwn()", "own", "Own"),
        ("'\u{e9}\u{1f600}'", "'\u{e9}\u{1f600}'", "str"),
    ] {
        let outcome = session.execute(code).ok();
        assert_eq!((outcome.result(), outcome.0["result"]["type"].as_str()), (repr, Some(kind)));
        assert_eq!(outcome.0["result"]["mime"]["text/plain"], repr);
    }
    for code in ["None", "x = 1", "print('x')", "", "   \n", "# only a comment", "1;2;None"] {
        assert!(session.execute(code).ok().0["result"].is_null(), "{code}");
    }
    assert_eq!(session.value("_ + '!'"), "'\u{e9}\u{1f600}!'", "the last value has a name");
}

#[test]
fn exceptions_show_the_users_lines_and_none_of_ours() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "def divide(n):\n    return 1 / n\n\ndef outer():\n    divide(0)\n\nouter()\n";
    let outcome = session.execute(code).raised("ZeroDivisionError");
    assert_eq!(outcome.0["exception"]["message"], "division by zero");
    let traceback = outcome.traceback();
    for line in ["return 1 / n", "divide(0)", "outer()", "line 2, in divide", "line 7, in <module>"]
    {
        assert!(traceback.contains(line), "{line} is missing: {traceback}");
    }
    assert_eq!(traceback.matches("File \"").count(), 3, "{traceback}");
    for ours in ["kernel.py", "run_code", "call_user", "<string>", "vivarium"] {
        assert!(!traceback.contains(ours), "{ours}: {traceback}");
    }
    // A function of an earlier execution still has its lines.
    let later = session.execute("divide(0)").raised("ZeroDivisionError");
    assert!(later.traceback().contains("return 1 / n"), "{later}");
    let syntax = session.execute("x = = 1").raised("SyntaxError");
    assert!(syntax.traceback().contains("x = = 1"), "{syntax}");
    let chained =
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error";
    let chained = session.execute(chained).raised("KeyError");
    assert!(chained.traceback().contains("direct cause"), "{chained}");
    assert!(!chained.traceback().contains("kernel.py"), "{chained}");
}

#[test]
fn every_kind_of_exception_leaves_the_session_usable() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("kept = 1").ok();
    for (code, name) in [
        ("import sys; sys.exit(3)", "SystemExit"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("import asyncio; raise asyncio.CancelledError", "asyncio.exceptions.CancelledError"),
        ("class Own(BaseException): pass\nraise Own('x')", "Own"),
        ("raise StopIteration", "StopIteration"),
        ("raise MemoryError", "MemoryError"),
        ("def deep(): deep()\ndeep()", "RecursionError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("exit()", "SystemExit"),
        ("raise Exception('\\ud800')", "Exception"),
    ] {
        let _raised = session.execute(code).raised(name);
        assert_eq!(session.value("kept"), "1", "{code}");
    }
}

#[test]
fn code_is_the_main_module() {
    let daemon = Daemon::start();
    let session = daemon.session();
    assert_eq!(session.value("__name__"), "'__main__'");
    let pickled = "
import pickle, sys, typing, inspect
class Point:
    x: 'int'
    def where(self): return self.x
p = Point(); p.x = 5
copy = pickle.loads(pickle.dumps(p))
[copy.x, type(copy) is Point, typing.get_type_hints(Point), sys.modules['__main__'].Point is Point]";
    assert_eq!(session.value(pickled), "[5, True, {'x': <class 'int'>}, True]");
    assert!(session.value("inspect.getsource(Point.where)").contains("return self.x"));
    let dataclass = "
import dataclasses
@dataclasses.dataclass
class D:
    a: int
D(1)";
    assert_eq!(session.value(dataclass), "D(a=1)");
}

#[test]
fn top_level_await_works() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let first = "
import asyncio
async def double(n):
    await asyncio.sleep(0)
    return 2 * n
lock = asyncio.Lock()
await double(21)";
    assert_eq!(session.value(first), "42");
    let later =
        "async with lock:\n    results = await asyncio.gather(*map(double, range(3)))\nresults";
    assert_eq!(session.value(later), "[0, 2, 4]");
    assert_eq!(session.value("[n async for n in (await double(i) for i in range(2))]"), "[0, 2]");
    assert_eq!(
        session.value("asyncio.run(double(2))"),
        "4",
        "not on a running loop between awaits"
    );
    let raised = session.execute("await double(None)").raised("TypeError");
    assert!(raised.traceback().contains("return 2 * n"), "{raised}");
}

#[test]
fn there_is_no_input() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for code in
        ["input()", "input('name? ')", "import sys; sys.stdin.read()", "sys.stdin.readline()"]
    {
        let _refused = session.execute(code).raised("EOFError");
    }
    // A child's standard input is empty.
    let cat = "import subprocess; subprocess.run(['cat'], capture_output=True).stdout";
    assert_eq!(session.value(cat), "b''");
}

#[test]
fn code_starts_in_its_workdir_and_finds_its_files() {
    let daemon = Daemon::start();
    let session = daemon.session();
    assert_eq!(session.value("import os; os.getcwd()"), "'/workspace'");
    let write = "open('module_of_mine.py', 'w').write('value = 7')";
    let _written = session.execute(write).ok();
    assert_eq!(session.value("import module_of_mine; module_of_mine.value"), "7");
    let request = serde_json::json!({
        "code": "open('in/data.csv').read() + repr(open('raw', 'rb').read())",
        "files": [{"name": "in/data.csv", "text": "a,b\n"}, {"name": "raw", "data": "/wA="}],
    });
    assert_eq!(session.execute_with(&request).ok().result(), r#""a,b\nb'\\xff\\x00'""#);
}

#[test]
fn input_files_are_written_through_no_link() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let plant = "import os\nos.symlink('/workspace', 'dir')\nos.symlink('/workspace/target', 'file')\n\
                 os.mkfifo('fifo')";
    let _planted = session.execute(plant).ok();
    for name in ["dir/x", "file", "fifo"] {
        let request = serde_json::json!({"code": "1", "files": [{"name": name, "text": "x"}]});
        let outcome = session.execute_with(&request);
        assert_eq!(outcome.status(), "rejected", "{name}: {outcome}");
        assert!(outcome.detail().contains(name), "{outcome}");
        assert_eq!(outcome.state(), "preserved", "{outcome}");
    }
    assert_eq!(session.value("os.path.exists('target'), os.path.exists('x')"), "(False, False)");
}

#[test]
fn code_has_the_file_name_that_it_is_given() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let code = "def where():\n    return __file__\nprint(where())\n1/0";
    let file = serde_json::json!({"name": "sub/a.py", "text": code});
    for filename in ["sub/a.py", "./sub/a.py", "/workspace/sub/a.py"] {
        let request = serde_json::json!({"code": code, "filename": filename, "files": [file]});
        let outcome = session.execute_with(&request).raised("ZeroDivisionError");
        assert_eq!(outcome.stdout(), "/workspace/sub/a.py\n");
        let line = "  File \"/workspace/sub/a.py\", line 4, in <module>\n    1/0\n";
        assert!(outcome.traceback().contains(line), "{outcome}");
    }
    // Without a file it is a name, and nothing of the file before is left.
    let request = serde_json::json!({"code": "1/0", "filename": "cell 3"});
    let outcome = session.execute_with(&request).raised("ZeroDivisionError");
    assert!(outcome.traceback().contains("  File \"cell 3\", line 1, in <module>\n    1/0\n"));
    let _gone = session.execute("where()").raised("NameError");
    for filename in ["", "../a.py", "/etc/passwd", "/workspace", "a\0b"] {
        let body = serde_json::json!({"code": "1", "filename": filename});
        let refused = session.request("POST", "/execute", Some(&body));
        assert_eq!(refused.status, 422, "{filename:?}");
    }
    daemon.release();
}
