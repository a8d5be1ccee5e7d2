//! What is measured.

use std::process::Stdio;
use std::time::Instant;

use hyper::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use vivarium_protocol::layer::Status;

use super::daemon::Daemon;
use super::samples::{Samples, median};
use super::{Bar, BenchError, Machine, Plan, Report, Size};
use crate::client::Client;
use crate::engine::types::{HostInfo, Outcome, SessionInfo};

const MIB: f64 = 1024.0 * 1024.0;

/// Measures everything against `daemon`.
pub(super) async fn measure(daemon: &mut Daemon, plan: Plan) -> Result<Report, BenchError> {
    let mut client = daemon.client();
    let host: HostInfo = client.json(Method::GET, "/v1/host", None::<&()>).await?;
    let machine = machine(&host);

    let starts = starts(&mut client, &machine.interpreter, plan.starts).await?;
    let one = warm(&mut client, "latency", plan.executions).await?;
    let (agent, kernel) = grow(&mut client, 0, plan.idle_for_memory).await?;
    let daemon_bytes = daemon.pss_bytes();
    grow(&mut client, plan.idle_for_memory, plan.idle_for_latency).await?;
    let many = warm(&mut client, "latency", plan.executions).await?;

    let [bare, cold, run, delete] = [
        starts.bare.summary("bare python3 -c pass"),
        starts.cold.summary("cold create to first result"),
        starts.run.summary("one-shot run of print(1)"),
        starts.delete.summary("delete"),
    ];
    let one = one.summary("warm execute of 1+1");
    let many = many.summary(&format!("warm execute beside {} idle", plan.idle_for_latency));
    let idle = plan.idle_for_memory;
    #[allow(clippy::cast_precision_loss)] // sizes far below 2^53
    let bars = vec![
        Bar::at_most(
            "cold create to first result, above bare python3",
            cold.p50 - bare.p50,
            6.0,
            "ms",
        ),
        Bar::at_most("warm execute p50", one.p50, 0.5, "ms"),
        Bar::at_most("agent PSS", agent as f64 / MIB, 1.0, "MiB"),
        Bar::at_most(
            &format!("daemon PSS with {idle} idle"),
            daemon_bytes as f64 / MIB,
            20.0,
            "MiB",
        ),
        Bar::at_most(
            "latency beside idle sessions, to that with one",
            many.p50 / one.p50,
            1.2,
            "times",
        ),
    ];
    Ok(Report {
        machine,
        times_ms: vec![bare, cold, run, delete, one, many],
        sizes_bytes: vec![
            Size { name: "agent PSS, median of the idle sessions".to_owned(), bytes: agent },
            Size { name: "kernel PSS, median of the idle sessions".to_owned(), bytes: kernel },
            Size { name: format!("daemon PSS with {idle} idle sessions"), bytes: daemon_bytes },
        ],
        bars,
    })
}

/// Series that take their turns, so that a machine that slows down slows all of them.
#[derive(Default)]
struct Starts {
    bare: Samples,
    cold: Samples,
    run: Samples,
    delete: Samples,
}

async fn starts(
    client: &mut Client,
    interpreter: &str,
    count: usize,
) -> Result<Starts, BenchError> {
    let mut starts = Starts::default();
    // One of each that does not count: the page cache is not what is measured.
    let mut warm_up = Starts::default();
    for turn in 0..=count {
        let series = if turn == 0 { &mut warm_up } else { &mut starts };
        let start = Instant::now();
        bare(interpreter).await?;
        series.bare.add_since(start);

        let id = format!("cold-{turn}");
        let start = Instant::now();
        let path = format!("/v1/sessions/{id}/execute?create=true");
        execute(client, &path, "1+1", "2", "a cold session").await?;
        series.cold.add_since(start);

        let start = Instant::now();
        delete(client, &id).await?;
        series.delete.add_since(start);

        let start = Instant::now();
        let outcome: Outcome =
            client.json(Method::POST, "/v1/run", Some(&json!({"code": "print(1)"}))).await?;
        series.run.add_since(start);
        if outcome.stdout != "1\n" {
            return Err(unexpected("a one-shot run", &outcome));
        }
    }
    Ok(starts)
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

/// Executes `1+1` in one session again and again, on one connection.
async fn warm(client: &mut Client, id: &str, count: usize) -> Result<Samples, BenchError> {
    let create = format!("/v1/sessions/{id}/execute?create=true");
    let path = format!("/v1/sessions/{id}/execute");
    for _ in 0..20 {
        execute(client, &create, "1+1", "2", "a warm session").await?;
    }
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        execute(client, &path, "1+1", "2", "a warm session").await?;
        samples.add_since(start);
    }
    Ok(samples)
}

/// Makes idle sessions from number `from` up to `to`; the median PSS of their agents and
/// kernels.
async fn grow(client: &mut Client, from: usize, to: usize) -> Result<(u64, u64), BenchError> {
    let ids: Vec<_> = (from..to).map(|number| format!("idle-{number}")).collect();
    for id in &ids {
        let path = format!("/v1/sessions/{id}/execute?create=true");
        execute(client, &path, "1+1", "2", "an idle session").await?;
    }
    let (mut agents, mut kernels) = (Vec::new(), Vec::new());
    for id in &ids {
        let path = format!("/v1/sessions/{id}");
        let info: SessionInfo = client.json(Method::GET, &path, None::<&()>).await?;
        agents.extend(info.usage.agent_pss_bytes);
        kernels.extend(info.usage.kernel_pss_bytes);
    }
    Ok((median(agents), median(kernels)))
}

async fn execute(
    client: &mut Client,
    path: &str,
    code: &str,
    repr: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    let outcome: Outcome = client.json(Method::POST, path, Some(&json!({ "code": code }))).await?;
    let found = outcome.result.as_ref().map(|value| value.repr.as_str());
    if found == Some(repr) { Ok(()) } else { Err(unexpected(what, &outcome)) }
}

async fn delete(client: &mut Client, id: &str) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{id}");
    client.json::<Value>(Method::DELETE, &path, None::<&()>).await?;
    Ok(())
}

fn unexpected(what: &'static str, outcome: &Outcome) -> BenchError {
    BenchError::Unexpected { what, found: format!("{outcome:?}") }
}

fn machine(host: &HostInfo) -> Machine {
    let environment = host.environments.iter().find(|environment| environment.name == "default");
    let enforced = host.layers.iter().filter(|layer| layer.status == Status::Enforced).count();
    let rest = host.layers.iter().filter(|layer| layer.status != Status::Enforced);
    let rest: Vec<_> = rest.map(|layer| format!("{} {}", layer.layer, layer.status)).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
    Machine {
        kernel: host.kernel.clone(),
        cpus: host.capacity.cpus,
        interpreter: environment.map_or_else(String::new, |found| found.interpreter.clone()),
        python_version: environment.map_or_else(String::new, |found| found.python_version.clone()),
        layers: format!("{enforced} of {} layers enforced{rest}", host.layers.len()),
    }
}
