//! Executions of a tenant while another burns all the CPU that it gets, and without.

use std::time::Instant;

use serde_json::{Value, json};
use vivarium_api_types::Token;
use vivarium_client::{Client, Method};

use super::{Context, requests};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{BenchError, Findings};

const WHAT: &str = "an execution beside another tenant";
const SESSION: &str = "quiet";
/// How often the neighbour begins and ends.
const TURNS: usize = 4;

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
    let [alone, beside] = found?;
    let alone = alone.summary("execute of a tenant, alone");
    let beside = beside.summary("execute of a tenant, another burns CPU");
    let times = beside.p99 / alone.p99;
    let burning = burners(context);
    let note = format!(
        "the p99 of a tenant's execute beside {burning} processes of another that burn CPU is \
         {times:.2} times that without them"
    );
    Ok(Findings { times: vec![alone, beside], notes: vec![note], ..Findings::default() })
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
) -> Result<[Samples; 2], BenchError> {
    let mut client = daemon.client_of(quiet.clone());
    requests::create(&mut client, SESSION, "1+1", WHAT).await?;
    let mut samples = [(); 2].map(|()| Samples::default());
    let [alone, beside] = &mut samples;
    let count = context.plan.executions / TURNS;
    for _ in 0..TURNS {
        series(&mut client, count, alone).await?;
        for number in 0..burners(context) {
            burn(daemon.client_of(loud.clone()), &format!("loud-{number}")).await?;
        }
        series(&mut client, count, beside).await?;
        for number in 0..burners(context) {
            let session = format!("loud-{number}");
            requests::delete(&mut daemon.client_of(loud.clone()), &session).await?;
        }
    }
    Ok(samples)
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
