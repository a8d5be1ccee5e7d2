//! From a print to its arrival at a client that follows the execution.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const BAR_MS: f64 = 2.0;
const SESSION: &str = "first";
const WHAT: &str = "a followed print";

/// Prints when it prints, by the clock that we read too: no namespace sets CLOCK_REALTIME apart
/// (time_namespaces(7)). It runs on for a while, so that what is timed is not the execution's end.
const CODE: &str = "import time\nprint(time.time_ns())\ntime.sleep(0.01)\n";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let samples = with_daemon("", async |daemon| prints(daemon, context.plan.prints).await).await?;
    let time = samples.summary("print to its event at the client");
    let bar = Bar::at_most("print to its event at the client p50", time.p50, BAR_MS, "ms");
    Ok(Findings { times: vec![time], bars: vec![bar], ..Findings::default() })
}

async fn prints(daemon: &Daemon, count: usize) -> Result<Samples, BenchError> {
    requests::execute(&mut daemon.client(), SESSION, CODE, WHAT).await?;
    let mut samples = Samples::default();
    for _ in 0..count {
        let mut first = None;
        requests::follow(daemon.client(), SESSION, CODE, WHAT, |text| {
            first.get_or_insert((SystemTime::now(), text.to_owned()));
        })
        .await?;
        let time = first.as_ref().and_then(|(arrived, text)| since(text, *arrived));
        samples.add(time.ok_or_else(|| requests::unexpected(WHAT, &first))?);
    }
    Ok(samples)
}

/// The time since the one that was printed. None if that is none, or if the clock was set back.
fn since(printed: &str, arrived: SystemTime) -> Option<Duration> {
    let nanoseconds = printed.trim_end().parse().ok()?;
    let printed_at = UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))?;
    arrived.duration_since(printed_at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_before_the_arrival_counts() {
        let arrived = UNIX_EPOCH + Duration::from_nanos(1_500);
        assert_eq!(since("500\n", arrived), Some(Duration::from_micros(1)));
        assert_eq!(since("1500", arrived), Some(Duration::ZERO));
        for other in ["1501\n", "", "x", "-1", "99999999999999999999999"] {
            assert_eq!(since(other, arrived), None, "{other:?}");
        }
    }
}
