//! Commands: in the foreground until they are answered, and in the background until they run.

use std::time::Instant;

use serde_json::json;
use vivarium_api_types::Outcome;
use vivarium_client::{Event, Method};

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const SESSION: &str = "commands";
const WHAT: &str = "a command";
const PRINTED: &str = "hello\n";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let [foreground, started, first] =
        with_daemon("", async |daemon| commands(daemon, context.plan.commands).await).await?;
    let foreground = foreground.summary("command to its outcome");
    let started = started.summary("background command to its start");
    let first = first.summary("background command to its first output");
    let ratio = started.p50 / foreground.p50;
    let bar = Bar::at_most("background command's start, to a whole command", ratio, 1.0, "times");
    let times = vec![foreground, started, first];
    Ok(Findings { times, bars: vec![bar], ..Findings::default() })
}

/// The same command in each way in turns, each over a connection of its own.
async fn commands(daemon: &Daemon, count: usize) -> Result<[Samples; 3], BenchError> {
    let path = format!("/v1/sessions/{SESSION}/commands");
    let argv = ["/bin/echo", "hello"];
    let command = json!({ "argv": argv });
    let background = json!({"argv": argv, "background": true});
    requests::execute(&mut daemon.client(), SESSION, "1+1", WHAT).await?;
    let mut samples = [(); 3].map(|()| Samples::default());
    let [foreground, started, first] = &mut samples;
    for turn in 0..=count {
        let counts = turn > 0;
        let start = Instant::now();
        let outcome: Outcome = daemon.client().json(Method::POST, &path, Some(&command)).await?;
        foreground.add_if(counts, start.elapsed());
        if outcome.stdout != PRINTED {
            return Err(requests::unexpected(WHAT, &outcome));
        }

        let start = Instant::now();
        let mut execution = requests::command(daemon.client(), SESSION, &background).await?;
        let Some(Event::Started(_)) = execution.next().await? else {
            return Err(requests::unexpected(WHAT, &"no start"));
        };
        started.add_if(counts, start.elapsed());
        let text = requests::printed(&mut execution, WHAT).await?;
        first.add_if(counts, start.elapsed());
        if text != PRINTED {
            return Err(requests::unexpected(WHAT, &text));
        }
        // It has ended before the next is timed.
        while execution.next().await?.is_some() {}
    }
    Ok(samples)
}
