//! From a keystroke to its echo on a terminal in a session.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vivarium_client::{ApiRequest, Client, Event, Execution, Method};

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const BAR_MS: f64 = 2.0;
const SESSION: &str = "terminal";
const WHAT: &str = "a keystroke";

/// Programs that are typed at, by who echoes, with what each prints before it can be typed at.
const PROGRAMS: [(&str, &[&str], &str); 2] = [
    ("keystroke to its echo, by the terminal", &["/bin/sh", "-c", "echo ready; cat"], "ready"),
    ("keystroke to its echo, by Python's prompt", &["python3", "-i", "-q"], ">>> "),
];

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    with_daemon("", async |daemon| {
        let mut findings = Findings::default();
        for (name, argv, ready) in PROGRAMS {
            let samples = keystrokes(daemon, argv, ready, context.plan.keystrokes).await?;
            let time = samples.summary(name);
            findings.bars.push(Bar::at_most(format!("{name} p50"), time.p50, BAR_MS, "ms"));
            findings.times.push(time);
        }
        Ok(findings)
    })
    .await
}

async fn keystrokes(
    daemon: &Daemon,
    argv: &[&str],
    ready: &str,
    count: usize,
) -> Result<Samples, BenchError> {
    requests::execute(&mut daemon.client(), SESSION, "1+1", WHAT).await?;
    let pty = json!({"columns": 80, "rows": 24});
    let command = json!({"argv": argv, "pty": pty, "stdin_open": true, "background": true});
    let mut execution = requests::command(daemon.client(), SESSION, &command).await?;
    let Some(Event::Started(started)) = execution.next().await? else {
        return Err(requests::unexpected(WHAT, &"no start"));
    };
    let path = format!("/v1/sessions/{SESSION}/executions/{}/stdin", started.execution_id);
    let mut shown = String::new();
    while !shown.contains(ready) {
        shown += &requests::printed(&mut execution, WHAT).await?;
    }
    let mut typist = daemon.client();
    let mut samples = Samples::default();
    for (turn, letter) in ('a'..='z').cycle().take(count + 1).enumerate() {
        let time = keystroke(&mut typist, &path, &mut execution, letter).await?;
        samples.add_if(turn > 0, time);
    }
    requests::delete(&mut typist, SESSION).await?;
    Ok(samples)
}

/// The time from before a keystroke is sent until its echo is here, which may be before the answer
/// that it was written.
async fn keystroke(
    typist: &mut Client,
    path: &str,
    execution: &mut Execution,
    letter: char,
) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let echoed = async {
        while !requests::printed(execution, WHAT).await?.contains(letter) {}
        Ok(start.elapsed())
    };
    let mut key = [0; 4];
    let (time, ()) =
        tokio::try_join!(echoed, type_keys(typist, path, letter.encode_utf8(&mut key).as_bytes()))?;
    Ok(time)
}

async fn type_keys(typist: &mut Client, path: &str, keys: &[u8]) -> Result<(), BenchError> {
    let request = ApiRequest::new(Method::POST, path).bytes(keys.to_vec());
    typist.call::<Value>(request).await?;
    Ok(())
}
