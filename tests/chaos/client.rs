//! A client that remembers what it did, and holds every answer against that.
//!
//! Its session's kernel has a counter, and its workdir a log: each execution and command adds a
//! token of its own to the log. So an answer of another execution, a kernel that is another one
//! though nobody said so, and code that ran twice are all seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use vivarium_tests::http::{Endpoint, Response};

use crate::answer::{Answer, code, is_one_of, send, text, what};
use crate::random::Random;

/// Problems after which nothing was run.
const NOT_RUN: &[&str] = &["busy", "draining", "no_capacity", "no_room", "queue_full"];

/// Problems after which it may have been, or not.
const UNCERTAIN: &[&str] =
    &["no_answer", "session_not_started", "start_interrupted", "file_refused", "no_space"];

/// Whether code of a token has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Once,
    AtMostOnce,
    Never,
}

/// Code, by when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// Long before its timeout.
    InTime,
    /// At about its timeout, on one side or the other.
    AtItsTimeout,
    /// Never.
    Endless,
}

/// A session, as its client knows it.
#[derive(Debug)]
struct Known {
    id: String,
    /// What the kernel's counter may be.
    counter: BTreeSet<u64>,
    /// That a kernel was lost has been said, and no execution has seen the new one.
    loss_told: bool,
    tokens: BTreeMap<String, Ran>,
    /// What the file may hold; `None`: it may not be there.
    file: BTreeSet<Option<String>>,
}

impl Known {
    fn new(id: String) -> Self {
        let (counter, file) = (BTreeSet::from([0]), BTreeSet::from([None]));
        Self { id, counter, loss_told: false, tokens: BTreeMap::new(), file }
    }

    /// Code was sent and may have run.
    fn may_have_counted(&mut self) {
        let more: Vec<_> = self.counter.iter().map(|count| count + 1).collect();
        self.counter.extend(more);
    }

    fn lost(&mut self) {
        self.counter = BTreeSet::from([0]);
        self.loss_told = false;
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    number: u64,
    made: u64,
    endpoint: Endpoint,
    /// How many daemons there have been: an answer may fail to come if there is another one.
    daemons: &'a AtomicU64,
    random: Random,
    session: Option<Known>,
    /// What came of its requests.
    pub(crate) answers: BTreeMap<String, u64>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(number: u64, seed: u64, endpoint: Endpoint, daemons: &'a AtomicU64) -> Self {
        let random = Random::new(seed, number);
        Self { number, made: 0, endpoint, daemons, random, session: None, answers: BTreeMap::new() }
    }

    /// Does one thing.
    pub(crate) fn act(&mut self) {
        let Some(mut session) = self.session.take() else {
            self.session = self.create();
            return;
        };
        let stays = match self.random.below(100) {
            0..40 => self.execute(&mut session, Code::InTime),
            40..52 => self.execute(&mut session, Code::AtItsTimeout),
            52..62 => self.execute(&mut session, Code::Endless),
            62..76 => self.command(&mut session),
            76..82 => self.write(&mut session),
            82..88 => self.read(&mut session),
            88..92 => self.check_log(&mut session),
            92..97 => self.reset(&mut session),
            _ => self.delete(&session),
        };
        self.session = stays.then_some(session);
    }

    /// Nothing dies any more: a session works, and its log is right. It may have died before.
    pub(crate) fn finish(&mut self) {
        if let Some(mut session) = self.session.take()
            && self.execute(&mut session, Code::InTime)
            && self.check_log(&mut session)
        {
            self.delete(&session);
        }
        let mut session = self.create().expect("a session where nothing dies");
        for _ in 0..3 {
            assert!(self.execute(&mut session, Code::InTime), "{session:?}");
        }
        assert_eq!(session.counter, BTreeSet::from([3]), "{session:?}");
        assert!(self.check_log(&mut session), "{session:?}");
        assert!(session.tokens.values().all(|ran| *ran == Ran::Once), "{session:?}");
        self.delete(&session);
    }

    /// Sends a request. `None` if its daemon is no more.
    fn ask(&mut self, method: &str, path: &str, body: Option<&[u8]>) -> Option<Response> {
        let daemon = self.daemons.load(Ordering::SeqCst);
        let answer = loop {
            match send(&self.endpoint, method, path, body) {
                // The session ended while it gave a file: that is how HTTP tells it (RFC 9112, 8).
                Answer::BrokeOff if method == "GET" => self.note("content broke off"),
                Answer::BrokeOff | Answer::Nothing => break None,
                Answer::Whole(answer) => break Some(answer),
            }
        };
        // It changes only after the daemon is gone, and a little later.
        if answer.is_none() {
            vivarium_tests::wait::until_true(&format!("an answer to {method} {path}"), || {
                self.daemons.load(Ordering::SeqCst) != daemon
            });
        }
        self.note(&answer.as_ref().map_or_else(|| "no daemon".to_owned(), what));
        answer
    }

    fn note(&mut self, what: &str) {
        *self.answers.entry(what.to_owned()).or_default() += 1;
    }

    fn create(&mut self) -> Option<Known> {
        self.made += 1;
        let id = format!("c{}-{}", self.number, self.made);
        let body = json!({"id": id}).to_string().into_bytes();
        let answer = self.ask("POST", "/v1/sessions", Some(&body))?;
        if answer.status == 201 {
            return Some(Known::new(id));
        }
        let code = code(&answer);
        assert!(is_one_of(&code, &[NOT_RUN, UNCERTAIN]), "{}", text(&answer));
        None
    }

    /// Runs code; whether the session is still there.
    fn execute(&mut self, session: &mut Known, code: Code) -> bool {
        let token = self.token(session);
        let (end, timeout_ms) = match code {
            Code::InTime => (String::new(), 60_000),
            Code::AtItsTimeout => {
                let timeout_ms = 5 + self.random.below(20);
                (format!("import time\ntime.sleep({}e-3)", timeout_ms - 1), timeout_ms)
            }
            Code::Endless => {
                ("import time\ntime.sleep(1000)".to_owned(), 20 + self.random.below(200))
            }
        };
        let text = format!(
            "try: n += 1\nexcept NameError: n = 1\n\
             with open('log', 'a') as log: _ = log.write('{token}\\n')\n{end}\nf'{token} {{n}}'"
        );
        let body = json!({"code": text, "timeout_ms": timeout_ms});
        let Some(outcome) = self.run(session, "/execute", &body, &token) else { return false };
        if outcome.is_null() {
            return true;
        }
        let said = |name: &str| outcome[name].as_str().unwrap_or_default().to_owned();
        let is_told = !said("detail").is_empty() || session.loss_told;
        match (said("status").as_str(), said("state").as_str()) {
            ("ok", "preserved") if code != Code::Endless => {
                let result = outcome["result"]["repr"].as_str().unwrap_or_default();
                let count = result.trim_matches('\'').strip_prefix(&format!("{token} "));
                let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or_else(|| {
                    panic!("an answer that is another's: {token} of {session:?}: {outcome}")
                });
                let goes_on = count > 0 && session.counter.contains(&(count - 1));
                assert!(goes_on || count == 1 && is_told, "not {session:?}: {outcome}");
                session.counter = BTreeSet::from([count]);
                session.loss_told = false;
                session.tokens.insert(token, Ran::Once);
            }
            ("timed_out", "preserved") if code != Code::InTime => {
                if is_told {
                    session.counter.insert(0);
                }
                session.may_have_counted();
            }
            ("killed" | "timed_out" | "rejected", "lost") => session.lost(),
            // The session ended before its turn came.
            ("rejected", "preserved") => {
                session.tokens.insert(token, Ran::Never);
            }
            _ => panic!("not of {session:?}: {outcome}"),
        }
        true
    }

    /// Runs a command; whether the session is still there.
    fn command(&mut self, session: &mut Known) -> bool {
        let token = self.token(session);
        let body = json!({"shell": format!("echo {token} | tee -a log")});
        let Some(outcome) = self.run(session, "/commands", &body, &token) else { return false };
        if outcome.is_null() {
            return true;
        }
        let said = |name: &str| outcome[name].as_str().unwrap_or_default().to_owned();
        session.loss_told |= !said("detail").is_empty();
        match said("status").as_str() {
            // The first process of its pipe was killed; the code is that of the last.
            "ok" if said("stderr") == "Killed\n" => {}
            "ok" => {
                assert_eq!(said("stdout"), format!("{token}\n"), "{outcome}");
                session.tokens.insert(token, Ran::Once);
            }
            // One of its processes was killed.
            "error" | "killed" => {}
            "rejected" => {
                session.tokens.insert(token, Ran::Never);
            }
            _ => panic!("{outcome}"),
        }
        if said("state") == "lost" {
            session.lost();
        }
        true
    }

    /// The outcome of work; null where there is none, and `None` if there is no session any more.
    fn run(&mut self, session: &mut Known, rest: &str, body: &Value, token: &str) -> Option<Value> {
        let path = format!("/v1/sessions/{}{rest}", session.id);
        session.tokens.insert(token.to_owned(), Ran::AtMostOnce);
        let answer = self.ask("POST", &path, Some(body.to_string().as_bytes()))?;
        if answer.status == 200 {
            return Some(answer.json());
        }
        match code(&answer).as_str() {
            "unknown_session" => return None,
            code if NOT_RUN.contains(&code) => {
                session.tokens.insert(token.to_owned(), Ran::Never);
            }
            code if UNCERTAIN.contains(&code) => session.may_have_counted(),
            _ => panic!("{}", text(&answer)),
        }
        Some(Value::Null)
    }

    fn write(&mut self, session: &mut Known) -> bool {
        let content = self.token_text();
        let path = format!("/v1/sessions/{}/files/kept", session.id);
        let Some(answer) = self.ask("PUT", &path, Some(content.as_bytes())) else { return false };
        if (200..300).contains(&answer.status) {
            session.file = BTreeSet::from([Some(content)]);
            return true;
        }
        session.file.insert(Some(content));
        self.is_there(&answer)
    }

    fn read(&mut self, session: &mut Known) -> bool {
        let path = format!("/v1/sessions/{}/files/kept", session.id);
        let Some(answer) = self.ask("GET", &path, None) else { return false };
        let found = match answer.status {
            200 => Some(String::from_utf8(answer.body).unwrap()),
            _ if code(&answer) == "unknown_file" => None,
            _ => return self.is_there(&answer),
        };
        assert!(session.file.contains(&found), "{found:?} and not of {session:?}");
        session.file = BTreeSet::from([found]);
        true
    }

    /// What has run has run once.
    fn check_log(&mut self, session: &mut Known) -> bool {
        let path = format!("/v1/sessions/{}/files/log", session.id);
        let Some(answer) = self.ask("GET", &path, None) else { return false };
        let log = match answer.status {
            200 => String::from_utf8(answer.body).unwrap(),
            _ if code(&answer) == "unknown_file" => String::new(),
            _ => return self.is_there(&answer),
        };
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for token in log.lines() {
            *times.entry(token).or_default() += 1;
        }
        for (token, ran) in &session.tokens {
            let times = times.remove(token.as_str()).unwrap_or_default();
            let is_right = match ran {
                Ran::Once => times == 1,
                Ran::AtMostOnce => times <= 1,
                Ran::Never => times == 0,
            };
            assert!(is_right, "{token} ran {times} times, and {ran:?} of {session:?}");
        }
        assert!(times.is_empty(), "what nobody ran: {times:?} in {session:?}");
        true
    }

    fn reset(&mut self, session: &mut Known) -> bool {
        let path = format!("/v1/sessions/{}/reset", session.id);
        let Some(answer) = self.ask("POST", &path, None) else { return false };
        if answer.status == 200 {
            session.lost();
            return true;
        }
        session.counter.insert(0);
        self.is_there(&answer)
    }

    /// Ends it: it is not there afterwards.
    fn delete(&mut self, session: &Known) -> bool {
        let path = format!("/v1/sessions/{}", session.id);
        if let Some(answer) = self.ask("DELETE", &path, None) {
            let is_right = answer.status == 204 || code(&answer) == "unknown_session";
            assert!(is_right, "{}", text(&answer));
        }
        false
    }

    /// Whether there is a session, by a problem that is none of the request's own.
    fn is_there(&self, answer: &Response) -> bool {
        let code = code(answer);
        assert!(
            code == "unknown_session" || is_one_of(&code, &[NOT_RUN, UNCERTAIN]),
            "{}",
            text(answer)
        );
        code != "unknown_session"
    }

    fn token(&mut self, session: &Known) -> String {
        format!("{}-{}", session.id, session.tokens.len())
    }

    fn token_text(&mut self) -> String {
        format!("content {}", self.random.below(1 << 30))
    }
}
