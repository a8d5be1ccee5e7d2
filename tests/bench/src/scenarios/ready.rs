//! Waiting for what a daemon prepares in the background, so that nothing is measured beside it.

use std::time::Duration;

use vivarium_api_types::{EnvironmentInfo, HostInfo};
use vivarium_client::Method;

use super::requests::unexpected;
use crate::BenchError;
use crate::daemon::Daemon;

/// How long that may take: more than the largest pool of any plan needs.
const PREPARED_WITHIN: Duration = Duration::from_mins(3);

/// There is no event for it, so it is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until the template is there, or can not be, and the pool is full, if there is one.
pub(super) async fn prepared(daemon: &Daemon) -> Result<EnvironmentInfo, BenchError> {
    let mut last = None;
    let waiting = async {
        loop {
            let environment = environment(daemon).await?;
            if is_prepared(&environment) {
                return Ok(environment);
            }
            last = Some(environment);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PREPARED_WITHIN, waiting).await {
        Ok(found) => found,
        Err(_) => Err(unexpected("preparing a template and a pool", &last)),
    }
}

/// Why sessions of this daemon are not forked from a template; none if they are.
pub(super) async fn no_template(daemon: &Daemon) -> Result<Option<String>, BenchError> {
    let template = environment(daemon).await?.template;
    let reason =
        || format!("template {}: {}", template.state, template.reason.as_deref().unwrap_or("-"));
    Ok((template.state != "ready").then(reason))
}

async fn environment(daemon: &Daemon) -> Result<EnvironmentInfo, BenchError> {
    let host: HostInfo = daemon.client().json(Method::GET, "/v1/host", None::<&()>).await?;
    let found = host.environments.into_iter().find(|environment| environment.name == "default");
    found.ok_or_else(|| unexpected("the daemon's environments", &"no default one"))
}

fn is_prepared(environment: &EnvironmentInfo) -> bool {
    environment.template.state != "building"
        && environment.pool.is_none_or(|pool| pool.ready >= pool.high)
}

/// How often a session was asked for where there is a pool: those that were ready, and those that
/// were not. From `vivarium_pool_takes_total`.
pub(super) async fn takes(daemon: &Daemon) -> Result<(u64, u64), BenchError> {
    let (_, body) = daemon.client().send(Method::GET, "/metrics", Vec::new()).await?;
    let text = String::from_utf8_lossy(&body);
    Ok((count(&text, "hit"), count(&text, "miss")))
}

fn count(metrics: &str, outcome: &str) -> u64 {
    let outcome = format!("outcome=\"{outcome}\"}} ");
    let series = metrics.lines().filter(|line| line.starts_with("vivarium_pool_takes_total{"));
    series.filter_map(|line| line.split_once(&outcome)?.1.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::{PoolInfo, TemplateInfo};

    #[test]
    fn a_daemon_is_prepared_when_nothing_is_built_in_the_background() {
        let environment = |state: &str, ready: Option<usize>| EnvironmentInfo {
            name: String::new(),
            base: None,
            runtime: String::new(),
            interpreter: String::new(),
            python_version: String::new(),
            template: TemplateInfo { state: state.into(), reason: None },
            pool: ready.map(|ready| PoolInfo { ready, low: 1, high: 3 }),
        };
        for (state, ready, expected) in [
            ("building", None, false),
            ("building", Some(3), false),
            ("ready", None, true),
            ("ready", Some(2), false),
            ("ready", Some(3), true),
            ("unavailable", Some(3), true),
            ("off", None, true),
        ] {
            assert_eq!(is_prepared(&environment(state, ready)), expected, "{state} {ready:?}");
        }
    }

    #[test]
    fn takes_are_counted_by_their_outcome() {
        let text = "# HELP vivarium_pool_takes_total …\n\
                    vivarium_pool_takes_total{environment=\"a\",outcome=\"hit\"} 5\n\
                    vivarium_pool_takes_total{environment=\"b\",outcome=\"hit\"} 2\n\
                    vivarium_pool_takes_total{environment=\"a\",outcome=\"miss\"} 1\n\
                    other{outcome=\"miss\"} 9\n";
        assert_eq!((count(text, "hit"), count(text, "miss")), (7, 1));
    }
}
