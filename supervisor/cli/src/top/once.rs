//! `top --once` and `--json`: everything, printed once.

use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;
use vivarium_api_types::{HostInfo, TenantInfo};
use vivarium_client::Remote;

use super::poll::{self, Snapshot};
use super::rows::{
    self, CpuTimes, SESSION_FIGURES, SESSION_HEADINGS, SessionRow, TENANT_FIGURES, TENANT_HEADINGS,
};
use crate::exit::{Exit, Failure};
use crate::print;
use crate::terminal::escape;

#[derive(Serialize)]
struct Report<'a> {
    host: &'a HostInfo,
    sessions: &'a [SessionRow],
    /// Null if the daemon does not show them.
    tenants: Option<&'a [TenantInfo]>,
}

pub(super) async fn print(remote: Remote, as_json: bool) -> Result<Exit, Failure> {
    let Snapshot { host, sessions, tenants, .. } = poll::fetch_all(remote).await?;
    let sessions = sessions.unwrap_or_default();
    let now = Instant::now();
    let rows = rows::sessions(&sessions, &mut CpuTimes::default(), now, Timestamp::now());
    if as_json {
        let tenants = tenants.as_ref().and_then(|tenants| tenants.as_deref().ok());
        print::json(&Report { host: &host, sessions: &rows, tenants })?;
        return Ok(Exit::Ok);
    }
    let mut text = format!("{}\n\n", escape(&heading(&host)));
    text.push_str(&table(&SESSION_HEADINGS, &SESSION_FIGURES, rows.iter().map(SessionRow::cells)));
    text.push('\n');
    match tenants {
        Some(Ok(tenants)) => {
            let cells = rows::tenants(&tenants, &mut CpuTimes::default(), now);
            text.push_str(&table(&TENANT_HEADINGS, &TENANT_FIGURES, cells.into_iter()));
        }
        Some(Err(why)) => text.push_str(&format!("{why}\n")),
        None => {}
    }
    let layers = host.layers.iter().map(|report| {
        vec![report.layer.to_string(), report.status.to_string(), escape(&report.detail).into()]
    });
    text.push('\n');
    text.push_str(&table(&["LAYER", "STATUS", "DETAIL"], &[], layers));
    print::out(text.as_bytes())?;
    Ok(Exit::Ok)
}

pub(super) fn heading(host: &HostInfo) -> String {
    let max = host.capacity.max_sessions;
    format!(
        "vivarium {} on Linux {}, {} CPUs, sandbox {}, {} of {max} sessions",
        host.version, host.kernel, host.capacity.cpus, host.mode, host.capacity.sessions,
    )
}

fn table(headings: &[&str], figures: &[usize], rows: impl Iterator<Item = Vec<String>>) -> String {
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    print::table(&[headings].into_iter().chain(rows).collect::<Vec<_>>(), figures)
}
