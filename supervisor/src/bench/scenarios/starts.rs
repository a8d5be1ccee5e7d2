//! A session from nothing and back, beside bare Python.

use std::process::Stdio;
use std::time::Instant;

use hyper::Method;
use serde_json::json;
use tokio::process::Command;

use super::{Context, ask, with_daemon};
use crate::bench::samples::Samples;
use crate::bench::{Bar, BenchError, Findings};
use crate::client::Client;
use crate::engine::types::Outcome;

/// How much longer a cold start may take than bare Python.
const COLD_ABOVE_BARE_MS: f64 = 6.0;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let count = context.plan.starts;
    let interpreter = &context.machine.interpreter;
    let series =
        with_daemon("", async |daemon| turns(&mut daemon.client(), interpreter, count).await)
            .await?;
    let bare = series.bare.summary("bare python3 -c pass");
    let cold = series.cold.summary("cold create to first result");
    let above = cold.p50 - bare.p50;
    let bar = "cold create to first result, above bare python3";
    Ok(Findings {
        bars: vec![Bar::at_most(bar, above, COLD_ABOVE_BARE_MS, "ms")],
        times: vec![
            bare,
            cold,
            series.run.summary("one-shot run of print(1)"),
            series.delete.summary("delete"),
        ],
        ..Findings::default()
    })
}

/// Series that take their turns, so that a machine that slows down slows all of them.
#[derive(Default)]
struct Series {
    bare: Samples,
    cold: Samples,
    run: Samples,
    delete: Samples,
}

async fn turns(client: &mut Client, interpreter: &str, count: usize) -> Result<Series, BenchError> {
    let mut counted = Series::default();
    // One of each that does not count: the page cache is not what is measured.
    let mut warm_up = Series::default();
    for turn in 0..=count {
        let series = if turn == 0 { &mut warm_up } else { &mut counted };
        let start = Instant::now();
        bare(interpreter).await?;
        series.bare.add_since(start);

        let id = format!("cold-{turn}");
        let path = format!("/v1/sessions/{id}/execute?create=true");
        let start = Instant::now();
        ask::two(client, &path, "a cold session").await?;
        series.cold.add_since(start);

        let start = Instant::now();
        ask::delete(client, &id).await?;
        series.delete.add_since(start);

        let start = Instant::now();
        let outcome: Outcome =
            client.json(Method::POST, "/v1/run", Some(&json!({"code": "print(1)"}))).await?;
        series.run.add_since(start);
        if outcome.stdout != "1\n" {
            return Err(ask::unexpected("a one-shot run", &outcome));
        }
    }
    Ok(counted)
}

/// Runs the interpreter with nothing to do, and nothing around it.
async fn bare(interpreter: &str) -> Result<(), BenchError> {
    Command::new(interpreter)
        .args(["-c", "pass"])
        .stdin(Stdio::null())
        .status()
        .await
        .map(drop)
        .map_err(|source| BenchError::Interpreter { interpreter: interpreter.to_owned(), source })
}
