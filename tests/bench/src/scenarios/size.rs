//! What an idle session takes of memory, among many that share what they can.

use super::{Context, concurrent, environment, ready, with_daemon};
use crate::daemon::Daemon;
use crate::memory::{available_bytes, launchers_pss_bytes};
use crate::{Bar, BenchError, Findings, Size};

const PLAIN_MB: f64 = 1.0;
const SCIENTIFIC_MB: f64 = 2.0;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let counts = context.plan.idle_for_size;
    let most = counts.iter().max().copied().unwrap_or_default();
    let bar = |kind, found, limit| {
        Bar::at_most(format!("PSS per idle session of {most}, {kind}"), found, limit, "MB")
    };
    let (mut findings, plain) = grown(counts, "plain", "", "1+1").await?;
    let mut scientific = (Findings::default(), f64::NAN);
    if let Some(interpreter) = &context.scientific {
        let config = environment::scientific(interpreter);
        scientific = grown(counts, "the three", &config, &environment::import_and_add()).await?;
    }
    findings.bars.push(bar("plain", plain, PLAIN_MB));
    findings.bars.push(bar("the three imported", scientific.1, SCIENTIFIC_MB));
    findings.sizes.extend(scientific.0.sizes);
    findings.notes.extend(scientific.0.notes);
    Ok(findings)
}

/// The sizes for each of these counts of idle sessions, and in MB that of a session among the
/// most.
pub(super) async fn grown(
    counts: &[usize],
    kind: &str,
    config: &str,
    code: &str,
) -> Result<(Findings, f64), BenchError> {
    with_daemon(config, async |daemon| {
        let mut findings = Findings::default();
        if let Some(reason) = ready::no_template(daemon).await? {
            findings.notes.push(format!("idle sessions, {kind}: {reason}"));
        }
        let (mut last, mut sessions) = (f64::NAN, 0);
        let before = available_bytes()?;
        for count in counts {
            concurrent::grow(daemon, sessions..*count, code).await?;
            sessions = *count;
            let taken = before.saturating_sub(available_bytes()?);
            let parts = parts(daemon, sessions).await?;
            let name = |part| format!("{sessions} idle, {kind}: {part}");
            let part = |label, bytes: Option<u64>| bytes.map(|bytes| Size::new(name(label), bytes));
            let per_session = |bytes: u64| Some(bytes / sessions.max(1) as u64);
            let together = parts.iter().try_fold(0, |sum, bytes| Some(sum + (*bytes)?));
            let [agent, kernel, launcher] = parts;
            findings.sizes.extend(part("PSS of a session", together));
            findings.sizes.extend(part("of that its agent", agent));
            findings.sizes.extend(part("of that its kernel", kernel));
            findings.sizes.extend(part("of that its launcher", launcher));
            findings.sizes.extend(part("less MemAvailable", per_session(taken)));
            last = together.map_or(f64::NAN, |bytes| Size::new("", bytes).mb());
        }
        Ok((findings, last))
    })
    .await
}

/// The mean PSS of agents, of kernels and of launchers; none where one of them can not be read.
async fn parts(daemon: &Daemon, sessions: usize) -> Result<[Option<u64>; 3], BenchError> {
    let usage = concurrent::usage(daemon, 0..sessions).await?;
    let agents = usage.iter().map(|usage| usage.agent_pss_bytes).collect();
    let kernels = usage.iter().map(|usage| usage.kernel_pss_bytes).collect();
    let launchers = launchers_pss_bytes(daemon.pid(), sessions);
    Ok([mean(agents), mean(kernels), launchers.map(|sum| sum / sessions.max(1) as u64)])
}

fn mean(sizes: Vec<Option<u64>>) -> Option<u64> {
    let count = u64::try_from(sizes.len()).ok().filter(|count| *count > 0)?;
    let sum: Option<u64> = sizes.into_iter().sum();
    Some(sum? / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_needs_every_value() {
        assert_eq!(mean(vec![Some(2), Some(4)]), Some(3));
        assert_eq!(mean(vec![Some(2), None]), None);
        assert_eq!(mean(Vec::new()), None);
    }
}
