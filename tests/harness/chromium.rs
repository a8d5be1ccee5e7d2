//! A browser that a test drives: headless Chromium, by the `DevTools` protocol over a pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::http::Endpoint;
use crate::{Daemon, program, wait};
use serde_json::{Value, json};

pub const PROGRAM: &str = "/usr/bin/chromium";

/// Where the daemon has its previews, so that the browser finds them and has secure cookies.
pub const PREVIEWS: &str = "url = \"http://preview.localhost\"";

/// What every Chromium of the tests is started with.
pub fn arguments(daemon: &Daemon, profile: &Path) -> Vec<String> {
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
    let fixed = fixed.into_iter().chain(["--no-first-run"]).map(str::to_owned);
    let own = [
        format!("--user-data-dir={}", profile.display()),
        format!("--host-resolver-rules=MAP *.preview.localhost 127.0.0.1:{port}"),
    ];
    fixed.chain(own).collect()
}

/// A page in a browser of its own.
pub struct Page {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    /// Of the page, once it is there.
    session: Option<String>,
    _profile: tempfile::TempDir,
}

impl Page {
    pub fn open(daemon: &Daemon, url: &str) -> Self {
        let profile = program::temp_dir();
        // It reads commands from descriptor 3 and writes answers to 4, each ended by NUL.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, PROGRAM, "--remote-debugging-pipe"])
            .args(arguments(daemon, profile.path()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut page = Self { child, to, from, last: 0, session: None, _profile: profile };
        let made = page.send("Target.createTarget", &json!({ "url": url }));
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        let attached = page.send("Target.attachToTarget", &attach);
        page.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        page
    }

    /// Sends a command that works, and waits for its answer.
    #[track_caller]
    fn send(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.try_send(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn try_send(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.last {
                return answer;
            }
        }
    }

    /// The value of an expression in the page, `null` if it fails or if there is no page yet.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        self.try_send("Runtime.evaluate", &params)["result"]["result"]["value"].clone()
    }

    /// Waits until the page shows this.
    #[track_caller]
    pub fn until_shown(&mut self, text: &str) {
        wait::until_true(text, || {
            let shown = self.value("document.body.innerText");
            shown.as_str().is_some_and(|shown| shown.contains(text))
        });
    }

    /// Types this, and Enter, where the first element is that this selects.
    #[track_caller]
    pub fn enter(&mut self, selector: &str, text: &str) {
        let focus = format!(
            "document.querySelector({selector:?})?.focus(); document.activeElement.matches({selector:?})"
        );
        wait::until_true(selector, || self.value(&focus) == true);
        let _typed = self.send("Input.insertText", &json!({ "text": text }));
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r",
                "windowsVirtualKeyCode": 13});
            let _pressed = self.send("Input.dispatchKeyEvent", &key);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _gone = self.child.kill().is_err();
        let _ended = self.child.wait().is_err();
    }
}
