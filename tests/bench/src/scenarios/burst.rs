//! Many sessions asked for at the same moment, each by a client of its own.

use std::time::Instant;

use vivarium_client::{Client, Method};

use super::{Context, concurrent, outside, ready, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const WHAT: &str = "a session of many at once";

/// How many times as long as bare Python it may take until all of 100 have answered.
const ALL_OF_100: f64 = 15.0;
/// And until the first half of 1000.
const HALF_OF_1000: f64 = 80.0;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    with_daemon("", async |daemon| {
        let mut findings = Findings::default();
        if let Some(reason) = ready::no_template(daemon).await? {
            findings.notes.push(format!("creates at once: {reason}"));
        }
        let mut client = daemon.client();
        requests::create(&mut client, "before", "1+1", WHAT).await?;
        let bare = outside::bare_beside(context, "creates at once").await?;
        for (at_once, rounds) in context.plan.bursts {
            let (mut each, mut all) = (Samples::default(), Samples::default());
            for _ in 0..*rounds {
                burst(daemon, *at_once, &mut each, &mut all).await?;
            }
            let each = each.summary(format!("creates at once, {at_once}: each"));
            let all = all.summary(format!("creates at once, {at_once}: all of them"));
            let bar = match at_once {
                100 => Some((&all, ALL_OF_100)),
                1000 => Some((&each, HALF_OF_1000)),
                _ => None,
            };
            findings.bars.extend(bar.map(|(times, most)| {
                let name = format!("{} p50, to bare python3", times.name);
                Bar::at_most(name, times.p50 / bare.p50, most, "times")
            }));
            findings.times.extend([each, all]);
        }
        findings.times.push(bare);
        Ok(findings)
    })
    .await
}

/// Times each from the moment when all were asked for to its first result.
async fn burst(
    daemon: &Daemon,
    at_once: usize,
    each: &mut Samples,
    all: &mut Samples,
) -> Result<(), BenchError> {
    let connect = (0..at_once).map(|number| {
        let mut client = daemon.client();
        async move {
            // What is timed is not the making of connections.
            client.send(Method::GET, "/healthz", Vec::new()).await?;
            Ok((number, client))
        }
    });
    let clients = concurrent::at_once(WHAT, connect).await?;
    let start = Instant::now();
    let creates = clients.into_iter().map(|(number, mut client)| async move {
        requests::create(&mut client, &id(number), "1+1", WHAT).await?;
        Ok((start.elapsed(), number, client))
    });
    let created = concurrent::at_once(WHAT, creates).await?;
    all.add(created.iter().map(|(took, ..)| *took).max().unwrap_or_default());
    for (took, ..) in &created {
        each.add(*took);
    }
    let deletes = created.into_iter().map(|(_, number, client)| delete(number, client));
    concurrent::at_once(WHAT, deletes).await.map(drop)
}

async fn delete(number: usize, mut client: Client) -> Result<(), BenchError> {
    requests::delete(&mut client, &id(number)).await
}

fn id(number: usize) -> String {
    format!("burst-{number}")
}
