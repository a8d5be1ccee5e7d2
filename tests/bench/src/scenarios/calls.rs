//! Calls out of the sandbox: code calls a function of its client's, which answers at once.

use std::time::Duration;

use serde_json::{Value, json};
use vivarium_api_types::{CallAnswer, CallEvent};
use vivarium_client::{Client, Event, Execution};
use vivarium_protocol::outcome::Status;

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const BAR_MS: f64 = 1.0;
const SESSION: &str = "calls";
const WHAT: &str = "a call of a client's function";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let samples =
        with_daemon("", async |daemon| in_a_row(daemon, context.plan.calls).await).await?;
    let time = samples.summary("call of a client's function, in a row");
    let bar = Bar::at_most("call of a client's function p50", time.p50, BAR_MS, "ms");
    Ok(Findings { times: vec![time], bars: vec![bar], ..Findings::default() })
}

/// Calls in one execution, each after the answer to the one before, by the clock of the code that calls.
async fn in_a_row(daemon: &Daemon, count: usize) -> Result<Samples, BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, "1+1", WHAT).await?;
    let code = format!(
        "import time\nfrom vivarium import tools\ntimes = []\nfor n in range({count} + 1):\n    \
         start = time.perf_counter_ns()\n    assert tools.double(n=n) == 2 * n\n    \
         times.append(time.perf_counter_ns() - start)\nprint(times[1:])"
    );
    let parameters = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tools = json!([{"name": "double", "parameters": parameters}]);
    let body = json!({"code": code, "tools": tools}).to_string().into_bytes();
    let path = format!("/v1/sessions/{SESSION}/execute");
    let mut execution = Execution::start(daemon.client(), path, body).await?;
    let mut printed = String::new();
    while let Some(event) = execution.next().await? {
        match event {
            Event::Call(call) => double(&mut client, &call).await?,
            Event::Stdout(text) => printed += &text,
            Event::Started(_) | Event::CallEnded(_) => {}
            Event::Done(done) if done.status == Status::Ok => return times(&printed, count),
            other => return Err(requests::unexpected(WHAT, &other)),
        }
    }
    Err(requests::unexpected(WHAT, &"no end"))
}

async fn double(client: &mut Client, call: &CallEvent) -> Result<(), BenchError> {
    let unexpected = || requests::unexpected(WHAT, call);
    let arguments: Value =
        serde_json::from_str(call.arguments.as_str()).map_err(|_| unexpected())?;
    let n = arguments.get("n").and_then(Value::as_u64).ok_or_else(unexpected)?;
    let answer: CallAnswer =
        serde_json::from_value(json!({"result": 2 * n})).map_err(|_| unexpected())?;
    client.answer_call(SESSION, &call.execution_id, &call.call_id, &answer).await?;
    Ok(())
}

fn times(printed: &str, count: usize) -> Result<Samples, BenchError> {
    let nanoseconds: Vec<u64> = serde_json::from_str(printed).unwrap_or_default();
    if nanoseconds.len() != count {
        return Err(requests::unexpected(WHAT, &printed));
    }
    let mut samples = Samples::default();
    for time in nanoseconds {
        samples.add(Duration::from_nanos(time));
    }
    Ok(samples)
}
