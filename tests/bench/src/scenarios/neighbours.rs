//! Executions of a tenant while another burns all the CPU that it gets or makes sessions, and without.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::interval;
use vivarium_api_types::Token;
use vivarium_client::{Client, Method};

use super::{Context, requests};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings, Frequency};

const WHAT: &str = "an execution beside another tenant";
const SESSION: &str = "quiet";
/// How often the neighbour begins and ends.
const TURNS: usize = 4;
/// How often the neighbour asks for a session.
const CREATES_EVERY: Duration = Duration::from_millis(10);
/// Sessions that it has under way at most, on a host that is too slow for so many.
const CREATES_AT_ONCE: usize = 16;
/// How many times as long the 99th percentile may be beside them.
const P99_BESIDE_CREATES: f64 = 2.0;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let fresh = || Token::fresh().map_err(|error| requests::unexpected("a token", &error));
    let (quiet, loud) = (fresh()?, fresh()?);
    let entry = |name: &str, token: &Token| {
        format!("[[tenant]]\nname = {name:?}\ntoken_sha256 = [\"{}\"]\n", token.hash())
    };
    let config = format!("{}{}", entry("quiet", &quiet), entry("loud", &loud));
    let daemon = Daemon::start(&config).await?;
    let found = executions(&daemon, context, &quiet, &loud).await;
    daemon.stop().await?;
    let Found { alone, beside, beside_creates, creates } = found?;
    let alone = alone.summary("execute of a tenant, alone");
    let beside_creates = beside_creates.summary("execute of a tenant, another makes sessions");
    let beside = beside.summary("execute of a tenant, another burns CPU");
    let times = beside.p99 / alone.p99;
    let burning = burners(context);
    let note = format!(
        "the p99 of a tenant's execute beside {burning} processes of another that burn CPU is \
         {times:.2} times that without them"
    );
    let name = "p99 of a tenant's execute beside another's creates, to that alone";
    let found = beside_creates.p99 / alone.p99;
    Ok(Findings {
        bars: vec![Bar::at_most(name, found, P99_BESIDE_CREATES, "times")],
        times: vec![alone, beside, beside_creates],
        frequencies: vec![creates],
        notes: vec![note],
        ..Findings::default()
    })
}

struct Found {
    alone: Samples,
    beside: Samples,
    beside_creates: Samples,
    creates: Frequency,
}

/// Twice what there is.
const fn burners(context: &Context) -> usize {
    2 * context.machine.cpus
}

async fn executions(
    daemon: &Daemon,
    context: &Context,
    quiet: &Token,
    loud: &Token,
) -> Result<Found, BenchError> {
    let mut client = daemon.client_of(quiet.clone());
    requests::create(&mut client, SESSION, "1+1", WHAT).await?;
    let [mut alone, mut beside, mut beside_creates] = [(); 3].map(|()| Samples::default());
    let (mut created, mut created_for) = (0, Duration::ZERO);
    let count = context.plan.executions / TURNS;
    for _ in 0..TURNS {
        series(&mut client, count, &mut alone).await?;
        for number in 0..burners(context) {
            burn(daemon.client_of(loud.clone()), &format!("loud-{number}")).await?;
        }
        series(&mut client, count, &mut beside).await?;
        for number in 0..burners(context) {
            let session = format!("loud-{number}");
            requests::delete(&mut daemon.client_of(loud.clone()), &session).await?;
        }
        let start = Instant::now();
        tokio::select! {
            measured = series(&mut client, count, &mut beside_creates) => measured?,
            failed = make_sessions(daemon, loud, &mut created) => failed?,
        }
        created_for += start.elapsed();
    }
    let creates = Frequency::new("creates by the other tenant meanwhile", created, created_for);
    Ok(Found { alone, beside, beside_creates, creates })
}

/// Has a session made every [`CREATES_EVERY`], used and deleted, until something fails. Counts them.
async fn make_sessions(
    daemon: &Daemon,
    loud: &Token,
    created: &mut usize,
) -> Result<(), BenchError> {
    let mut due = interval(CREATES_EVERY);
    let mut running = JoinSet::new();
    loop {
        due.tick().await;
        if running.len() < CREATES_AT_ONCE {
            let mut client = daemon.client_of(loud.clone());
            running.spawn(async move { requests::run(&mut client, WHAT).await });
        }
        while let Some(ended) = running.try_join_next() {
            ended.map_err(|error| requests::unexpected(WHAT, &error))??;
            *created += 1;
        }
    }
}

async fn series(
    client: &mut Client,
    count: usize,
    samples: &mut Samples,
) -> Result<(), BenchError> {
    for _ in 0..count {
        let start = Instant::now();
        requests::two(client, SESSION, WHAT).await?;
        samples.add_since(start);
    }
    Ok(())
}

/// A session that runs until it is deleted, and never waits.
async fn burn(mut client: Client, session: &str) -> Result<(), BenchError> {
    let spec = json!({ "id": session });
    client.json::<Value>(Method::POST, "/v1/sessions", Some(&spec)).await?;
    let code = "print(flush=True)\nwhile True: pass";
    let command = json!({"argv": ["python3", "-c", code], "background": true});
    let mut burning = requests::command(client, session, &command).await?;
    requests::printed(&mut burning, WHAT).await.map(drop)
}
