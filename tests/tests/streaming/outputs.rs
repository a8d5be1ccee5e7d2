//! What an execution printed, showed, returned and raised as one list in order, as notebooks have it.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::outcome::Outcome;
use vivarium_tests::{Daemon, Session};

fn notebook(session: &Session<'_>, code: &str) -> Outcome {
    session.execute_with(&json!({"code": code, "answer": {"format": "notebook"}}))
}

fn outputs(session: &Session<'_>, code: &str) -> Vec<Value> {
    let outcome = notebook(session, code);
    outcome.0["outputs"].as_array().unwrap_or_else(|| panic!("{outcome}")).clone()
}

fn stream(name: &str, text: &str) -> Value {
    json!({"output_type": "stream", "name": name, "text": text})
}

fn shown(part: &str, sizes: &Value, data: &Value) -> Value {
    let metadata = json!({"vivarium": {"part": part, "sizes": sizes}});
    json!({"output_type": "display_data", "metadata": metadata, "data": data})
}

const CELL: &str = "
import sys
print('one'); print('two')
print('oh', file=sys.stderr)
handle = display({'text/plain': 'first', 'application/json': {'a': [1]}}, raw=True, display_id=True)
print('three')
handle.update({'text/plain': 'second', 'application/json': {'a': [2]}}, raw=True)
print('four')
display({'image/png': b'PNG'}, raw=True)
6 * 7";

#[test]
fn outputs_are_in_order_and_an_update_has_the_place_of_what_it_replaces() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let expected = [
        stream("stdout", "one\ntwo\n"),
        stream("stderr", "oh\n"),
        shown(
            "displays/0",
            &json!({"text/plain": 6, "application/json": 10}),
            &json!({"text/plain": "second", "application/json": {"a": [2]}}),
        ),
        stream("stdout", "three\nfour\n"),
        shown("displays/1", &json!({"image/png": 3}), &json!({"image/png": "UE5H"})),
        json!({"output_type": "execute_result", "execution_count": 1,
               "metadata": {"vivarium": {"part": "result", "sizes": {"text/plain": 2}}},
               "data": {"text/plain": "42"}}),
    ];
    let outcome = notebook(&session, CELL).ok();
    assert_eq!(outcome.0["outputs"], json!(expected));
    assert_eq!((outcome.stdout(), &outcome.0["result"]), ("", &json!(null)), "content comes once");
    // What is kept is whole: whoever asks later chooses again.
    let kept = session.execution("1")["outcome"].clone();
    assert_eq!(kept["stdout"], "one\ntwo\nthree\nfour\n");
    assert!(kept.get("outputs").is_none());
    let again = session.request("GET", "/executions/1?format=both", None).json();
    assert_eq!(again["outcome"]["outputs"], json!(expected));
    assert_eq!(again["outcome"]["stdout"], kept["stdout"]);
    daemon.stop_and_check();
}

#[test]
fn clearing_and_exceptions_are_as_in_a_notebook() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "print('gone'); display(1); clear_output(); print('kept', end=''); 1 / 0";
    let outputs = outputs(&session, code);
    assert_eq!(outputs[0], stream("stdout", "kept"));
    assert_eq!(outputs[1]["ename"], "ZeroDivisionError");
    assert_eq!(outputs[1]["evalue"], "division by zero");
    let lines = outputs[1]["traceback"].as_array().unwrap();
    assert_eq!(lines[0], "Traceback (most recent call last):");
    assert_eq!(lines.last().unwrap(), "ZeroDivisionError: division by zero");
    assert_eq!(outputs.len(), 2);
    assert_eq!(self::outputs(&session, "None"), [] as [Value; 0]);
}

#[test]
fn a_stream_has_no_form_of_outcomes() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let body = json!({"code": "1", "answer": {"format": "notebook"}});
    let events = Events::open(&daemon.unix(), "POST", &session.path("/execute"), &[], Some(&body));
    let problem = events.head.expect_problem(422, "invalid_field");
    assert_eq!(problem["field"], "answer.format");
    for (field, value) in [("max_output_chars", json!(100)), ("keep", json!("tail"))] {
        let body = json!({"code": "1", field: value});
        let path = session.path("/execute");
        let events = Events::open(&daemon.unix(), "POST", &path, &[], Some(&body));
        let problem = events.head.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], field);
    }
    for wrong in [json!("pdf"), json!(1), json!([]), json!(""), json!(null)] {
        let body = json!({"code": "1", "answer": {"format": wrong}});
        let problem = session.request("POST", "/execute", Some(&body));
        assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "answer.format");
    }
    let _outcome = session.execute("1").ok();
    let wrong = session.request("GET", "/executions/1?format=pdf", None);
    wrong.expect_problem(400, "invalid_query");
}

/// JSON that some parsers refuse, and what else code may show to spoil an answer.
const HOSTILE: &str = r#"
deep = '[' * 5000 + ']' * 5000
for json in deep, '1' * 5000, '{"a": "\\ud800"}', 'NaN', '{', '1e999', '"\udc80"':
    display({'application/json': json, 'application/x+json': json}, raw=True)
display({'text/plain': '\udc80', 'a': 'b', 'image/png': b'\x00' * 1000, 'x/y': b'\xff'}, raw=True)
handle = display('first', display_id='same')
for n in range(20_000):
    handle.update(n)
'\udc80'"#;

#[test]
fn outputs_are_readable_and_bounded_whatever_is_shown() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let outputs = outputs(&session, HOSTILE);
    assert_eq!(outputs.len(), 10);
    for output in &outputs[..6] {
        assert!(output["data"].as_object().unwrap().values().all(Value::is_string), "{output}");
    }
    assert_eq!(outputs[8]["data"]["text/plain"], "19999");
    validate(&outputs);
    daemon.stop_and_check();
}

#[test]
fn outputs_make_a_notebook() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut all = outputs(&session, CELL);
    all.extend(outputs(&session, "1 / 0"));
    validate(&all);
}

/// Reads, validates and writes a notebook whose first cell has these outputs.
const VALIDATE: &str = "
import json, sys, nbformat
cell = nbformat.v4.new_code_cell('code')
cell.outputs = nbformat.from_dict(json.load(sys.stdin))
notebook = nbformat.v4.new_notebook(cells=[cell])
nbformat.validate(notebook)
assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
nbformat.reads(nbformat.writes(notebook), as_version=4)";

/// nbformat is the judge, where it is there.
fn validate(outputs: &[Value]) {
    if !host::has(&[Requirement::Ipykernel]) {
        return;
    }
    let mut judge = Command::new("/usr/bin/python3")
        .args(["-c", VALIDATE])
        .env("PYTHONPATH", host::ipykernel().unwrap())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    judge.stdin.take().unwrap().write_all(json!(outputs).to_string().as_bytes()).unwrap();
    assert!(judge.wait().unwrap().success());
}

const LONG: &str = "
import sys
print('start' + 'x' * 10_000 + 'end')
print('é' * 10_000, file=sys.stderr)
display({'text/plain': 'p' * 1000, 'text/html': 'h' * 1000}, raw=True)
def fail(depth):
    raise ValueError('m' * 1000)
";

#[test]
fn long_texts_are_cut_and_their_counts_told() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let asked = |code: &str, keep: &str| {
        let code = format!("{LONG}{code}");
        session.execute_with(&json!({"code": code, "max_output_chars": 200, "keep": keep}))
    };
    let outcome = asked("'r' * 1000", "both").ok();
    let stdout = outcome.stdout();
    assert!(stdout.starts_with("startxxx") && stdout.ends_with("xxend\n"), "{stdout}");
    assert!(stdout.contains(" of 10009 characters left out]"), "{stdout}");
    for text in [stdout, outcome.stderr(), outcome.result()] {
        assert!((150..=200).contains(&text.chars().count()), "{text}");
    }
    assert_eq!(outcome.0["stdout_truncated"], false, "nothing is lost");
    let cuts = outcome.0["cuts"].as_array().unwrap();
    let parts: Vec<_> = cuts.iter().map(|cut| (&cut["part"], &cut["mime_type"])).collect();
    let expected = [
        (json!("stdout"), json!(null)),
        (json!("stderr"), json!(null)),
        (json!("result"), json!(null)),
        (json!("result"), json!("text/plain")),
        (json!("displays/0"), json!("text/html")),
        (json!("displays/0"), json!("text/plain")),
    ];
    assert_eq!(parts, expected.iter().map(|(part, kind)| (part, kind)).collect::<Vec<_>>());
    let sum =
        |cut: &Value| cut["kept_chars"].as_u64().unwrap() + cut["dropped_chars"].as_u64().unwrap();
    assert_eq!(cuts.iter().map(sum).collect::<Vec<_>>(), [10_009, 10_001, 1002, 1002, 1000, 1000]);
    let (head, tail) = (asked("fail(1)", "head"), asked("fail(1)", "tail"));
    assert!(
        head.traceback().starts_with("Traceback (most recent") && !tail.stdout().contains("start")
    );
    assert!(tail.traceback().ends_with("mmm\n") && tail.stdout().ends_with("end\n"), "{tail}");
    // What is kept is whole, and can be cut otherwise.
    let whole = session.execution("1")["outcome"].clone();
    assert_eq!(whole["stdout"].as_str().unwrap().len(), 10_009);
    assert!(whole.get("cuts").is_none());
    let path = "/executions/1?max_output_chars=100&keep=tail&format=notebook";
    let outputs = session.request("GET", path, None).json()["outcome"]["outputs"].clone();
    let text = outputs[0]["text"].as_str().unwrap();
    assert!(text.len() <= 100 && text.ends_with("xend\n"), "{text}");
    validate(outputs.as_array().unwrap());
    daemon.stop_and_check();
}

#[test]
fn numbers_of_characters_that_make_no_sense_are_refused() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let numbers = [json!(-1), json!(0), json!(99), json!(1.5), json!(1_u64 << 53)];
    for wrong in numbers.into_iter().chain([json!("200"), json!([]), json!(true)]) {
        let body = json!({"code": "1", "max_output_chars": wrong});
        let problem = session.request("POST", "/execute", Some(&body));
        let problem = problem.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "max_output_chars", "{wrong}");
    }
    for wrong in ["middle", ""] {
        let body = json!({"code": "1", "keep": wrong});
        let problem = session.request("POST", "/execute", Some(&body));
        assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "keep", "{wrong}");
    }
    let [cut, keep] = [json!({"max_output_chars": 200}), json!({"keep": "head"})];
    for wrong in [json!([1]), json!("x"), json!({"more": 1}), cut, keep] {
        let body = json!({"code": "1", "answer": wrong});
        assert_eq!(session.request("POST", "/execute", Some(&body)).status, 422, "{wrong}");
    }
    let most = json!({"code": "1", "max_output_chars": (1_u64 << 53) - 1});
    assert_eq!(session.execute_with(&most).ok().result(), "1");
}

#[test]
fn sizes_are_told_without_content_in_outcomes_and_streams() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "print('é'); display({'image/png': b'1234', 'text/html': 'é'}, raw=True); 6 * 7";
    let request = json!({"code": code, "answer": {"content": "sizes"}});
    let outcome = session.execute_with(&request).ok();
    assert_eq!((outcome.stdout(), &outcome.0["stdout_bytes"]), ("", &json!(3)));
    let display = json!([{"sizes": {"image/png": 4, "text/html": 2}, "mime": {}}]);
    assert_eq!(outcome.0["displays"], display);
    let result = json!({"size_bytes": 2, "sizes": {"text/plain": 2}, "type": "int", "repr": "",
                        "mime": {}});
    assert_eq!(outcome.0["result"], result);
    let whole = session.execution("1")["outcome"].clone();
    assert_eq!((&whole["result"]["repr"], &whole["stdout"]), (&json!("42"), &json!("é\n")));
    let path = "/executions/1?content=sizes&format=notebook";
    let outputs = session.request("GET", path, None).json()["outcome"]["outputs"].clone();
    let sizes = json!({"image/png": 4, "text/html": 2});
    assert_eq!(outputs[0], shown("displays/0", &sizes, &json!({})));
    validate(outputs.as_array().unwrap());
    let events = session.stream_with("/execute", &[], &request).rest();
    let data = |name: &str| &events.iter().find(|event| event.name == name).unwrap().data;
    assert_eq!(data("stdout")["text"], "é\n", "printed text streams all the same");
    assert_eq!((&data("display")["mime"], &data("display")["sizes"]), (&json!({}), &sizes));
    assert_eq!(data("result"), &result);
    daemon.stop_and_check();
}
