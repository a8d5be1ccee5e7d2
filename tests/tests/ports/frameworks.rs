//! Flask and Streamlit, started as their users start them: by their own command, with nothing set up
//! for a proxy.

use serde_json::json;
use vivarium_tests::chromium::{PREVIEWS, Page};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Session, Setup, wait};

use crate::{get, path};

const FLASK: &str = r#"
from flask import Flask, Response, redirect, render_template_string, request, session, url_for

app = Flask(__name__)
app.secret_key = "the app's own"

PAGE = """<!doctype html><title>Guests</title>
<form method="post" action="{{ url_for('enter') }}"><input name="name"></form>
<p>{% if name %}Welcome, {{ name }}{% else %}Who are you?{% endif %}</p>"""

@app.get("/")
def index():
    return render_template_string(PAGE, name=session.get("name"))

@app.post("/enter")
def enter():
    session["name"] = request.form["name"]
    return redirect(url_for("index"))

@app.post("/sum")
def add():
    return {"sum": sum(request.get_json())}

@app.get("/events")
def events():
    return Response((f"data: {number}\n\n" for number in range(3)), mimetype="text/event-stream")
"#;

const STREAMLIT: &str = r#"
import streamlit as st

st.title("Sales")
name = st.text_input("Your name")
if name:
    st.write(f"Hello, {name}!")
st.dataframe({"month": ["Jan", "Feb"], "sold": [3, 5]})
"#;

/// A session in which this command has been started in the background and this answers on port 8000.
#[track_caller]
fn started<'d>(daemon: &'d Daemon, app: &str, argv: &[&str], ready: &str) -> Session<'d> {
    let session = daemon.session_with(&json!({"network": "loopback"}));
    let put = format!("_ = open('app.py', 'w').write({app:?})");
    assert_eq!(session.execute(&put).ok().stderr(), "");
    let command = json!({"argv": argv, "background": true});
    let id = session.request("POST", "/commands", Some(&command)).expect_success();
    let id = id["execution_id"].as_str().unwrap().to_owned();
    wait::until_true(ready, || {
        let info = session.execution(&id);
        assert!(info["outcome"].is_null(), "{info}");
        get(daemon, &session, ready).status == 200
    });
    session
}

#[track_caller]
fn flask(daemon: &Daemon) -> Session<'_> {
    started(daemon, FLASK, &["flask", "run", "--port", "8000"], "/")
}

fn preview(session: &Session<'_>) -> String {
    let made = session.request("POST", "/previews", Some(&json!({"port": 8000}))).expect_success();
    made["url"].as_str().unwrap().to_owned()
}

#[test]
fn flask_answers_below_its_port() {
    if !host::has(&[Requirement::Flask]) {
        return;
    }
    let daemon = Daemon::start();
    let session = flask(&daemon);
    let shown = |found: &Response| String::from_utf8_lossy(&found.body).into_owned();
    let page = get(&daemon, &session, "/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(shown(&page).contains("Who are you?"), "{}", shown(&page));
    assert_eq!(get(&daemon, &session, "/nothing").status, 404);

    let post = |rest: &str, kind: &str, body: &str| {
        let headers = [("Content-Type", kind)];
        let mut client = Client::connect(&daemon.tcp());
        client.send("POST", &path(&session, rest), &headers, Some(body.as_bytes()))
    };
    assert_eq!(post("/sum", "application/json", "[1, 2, 3]").json(), json!({"sum": 6}));
    let entered = post("/enter", "application/x-www-form-urlencoded", "name=Ann");
    assert_eq!(entered.status, 302);
    assert_eq!(entered.header("location"), Some(path(&session, "/").as_str()));
    // It is a preview that keeps cookies.
    assert_eq!(entered.header("set-cookie"), None);
    let events = get(&daemon, &session, "/events");
    assert_eq!(events.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(shown(&events), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    daemon.stop_and_check();
}

#[test]
fn browser_logs_in_to_flask_in_a_preview() {
    if !host::has(&[Requirement::Flask, Requirement::Chromium]) {
        return;
    }
    let daemon = Setup::default().config("preview", PREVIEWS).start();
    let session = flask(&daemon);
    let mut page = Page::open(&daemon, &preview(&session));
    page.until_shown("Who are you?");
    page.enter("input", "Ann");
    page.until_shown("Welcome, Ann");
    // The token has left the address bar, and scripts see no cookie of either.
    assert_eq!(page.value("location.pathname + location.search"), "/");
    assert_eq!(page.value("document.cookie"), "");
    drop(page);
    daemon.stop_and_check();
}

/// All that a page of Streamlit shows comes over its WebSocket.
#[test]
fn browser_uses_streamlit_in_a_preview() {
    if !host::has(&[Requirement::Streamlit, Requirement::Chromium]) {
        return;
    }
    let interpreter = format!("interpreter = {:?}", host::tool("python").unwrap());
    let setup = Setup::default().config("environments.default", &interpreter);
    let daemon = setup.config("preview", PREVIEWS).start();
    let run = ["streamlit", "run", "app.py", "--server.port", "8000"];
    let session = started(&daemon, STREAMLIT, &run, "/_stcore/health");
    let mut page = Page::open(&daemon, &preview(&session));
    page.until_shown("Sales");
    page.enter("input", "Ann");
    page.until_shown("Hello, Ann!");
    drop(page);
    daemon.stop_and_check();
}
