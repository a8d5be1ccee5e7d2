//! `vivarium admin`

mod show;
mod token;

use clap::Args;
use tokio::io::AsyncWriteExt as _;
use vivarium_api_types::{DrainRequest, PauseReply, PauseRequest, UsagePeriod, UsageQuery};
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::{print, target};

/// How to administer a daemon.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "A daemon is administered on its Unix socket by root or its own user, or \
                        with a token of scope `admin` in VIVARIUM_TOKEN.\n\n\
                        Examples:\n  vivarium admin status\n  \
                        vivarium admin pause --tenant team --reason unpaid\n  \
                        vivarium admin usage --period month --csv")]
pub(super) enum Command {
    /// Shows how a daemon does.
    Status(Just),
    /// Has new sessions and executions refused, of a tenant or of all; what runs goes on.
    Pause(PauseArgs),
    /// Has new sessions and executions taken again.
    Resume(ResumeArgs),
    /// Takes no new work any more and ends every session, when it is idle or its time is over.
    Drain(DrainArgs),
    /// Lists tenants, with what they use now and their tokens.
    Tenants(Just),
    /// Shows what tenants used, for billing.
    Usage(UsageArgs),
    /// Makes tokens.
    #[command(subcommand)]
    Token(token::Command),
}

#[derive(Debug, Args)]
pub(super) struct Just {
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    /// The tenant [default: all]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Why, for people; the tenant sees it too
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The tenant, if it was paused by itself [default: what was paused for all]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// Ends the daemon too, as SIGTERM does
    #[arg(long)]
    exit: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct UsageArgs {
    /// The beginning, such as 2027-01-01T00:00:00Z [default: 30 days ago]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// The end [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// What is added up in a row: hour, day, month (UTC) or total
    #[arg(long, value_name = "PERIOD", default_value = "day",
        value_parser = ["hour", "day", "month", "total"])]
    period: String,
    /// Only of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let daemon = match command {
        Command::Token(command) => return token::main(command),
        Command::Status(Just { daemon })
        | Command::Pause(PauseArgs { daemon, .. })
        | Command::Resume(ResumeArgs { daemon, .. })
        | Command::Drain(DrainArgs { daemon, .. })
        | Command::Tenants(Just { daemon })
        | Command::Usage(UsageArgs { daemon, .. }) => daemon,
    };
    let client = &mut Client::new(daemon.url.of_administrators()?);
    target::runtime()?.block_on(async {
        match command {
            Command::Token(_) => Ok(()),
            Command::Status(_) => {
                let status = client.admin_status().await?;
                if daemon.json { print::json(&status) } else { show::status(&status) }
            }
            Command::Tenants(_) => {
                let tenants = client.admin_tenants().await?;
                if daemon.json { print::json(&tenants) } else { show::tenants(&tenants) }
            }
            Command::Pause(args) => {
                let request =
                    PauseRequest { tenant: args.tenant.clone(), reason: args.reason.clone() };
                let reply = client.pause(&request).await?;
                said(daemon, args.tenant.as_deref(), &reply, "paused")
            }
            Command::Resume(args) => {
                let request = PauseRequest { tenant: args.tenant.clone(), reason: None };
                let reply = client.resume(&request).await?;
                let done = resumed(args.tenant.as_deref(), &reply);
                said(daemon, args.tenant.as_deref(), &reply, &done)
            }
            Command::Drain(args) => {
                let reply = client.drain(DrainRequest { exit: args.exit }).await?;
                let done = format!("draining, {} sessions are left", reply.sessions);
                daemon.confirm("daemon", &reply, &done)
            }
            Command::Usage(args) => usage(client, args).await,
        }
    })?;
    Ok(Exit::Ok)
}

fn said(
    daemon: &DaemonOptions,
    tenant: Option<&str>,
    reply: &PauseReply,
    done: &str,
) -> Result<(), Failure> {
    if !reply.persistent {
        print::note("this could not be written to disk: a restart will not know of it");
    }
    daemon.confirm(tenant.unwrap_or("all tenants"), reply, done)
}

/// What is true after a resume: new work may be refused for other reasons.
fn resumed(tenant: Option<&str>, reply: &PauseReply) -> String {
    if reply.draining {
        return "not paused any more, but the daemon is draining: it takes no new work until it is \
                started again"
            .to_owned();
    }
    let others: Vec<_> = reply.paused_tenants.keys().map(String::as_str).collect();
    match tenant {
        Some(_) if reply.paused.is_some() => {
            "not paused by itself any more, but all tenants are".to_owned()
        }
        None if !others.is_empty() => {
            format!("resumed, but for those paused by themselves: {}", others.join(", "))
        }
        _ => "resumed".to_owned(),
    }
}

async fn usage(client: &mut Client, args: &UsageArgs) -> Result<(), Failure> {
    let query = UsageQuery {
        from: args.from.clone(),
        to: args.to.clone(),
        period: match args.period.as_str() {
            "hour" => UsagePeriod::Hour,
            "month" => UsagePeriod::Month,
            "total" => UsagePeriod::Total,
            _ => UsagePeriod::Day,
        },
        tenant: args.tenant.clone(),
        ..UsageQuery::default()
    };
    if args.csv {
        let mut answer = client.usage_csv(&query).await?;
        let mut stdout = tokio::io::stdout();
        while let Some(chunk) = answer.chunk().await? {
            stdout.write_all(&chunk).await.map_err(|error| print::stdout_failure(&error))?;
        }
        return stdout.flush().await.map_err(|error| print::stdout_failure(&error));
    }
    let report = client.usage(&query).await?;
    if args.daemon.json { print::json(&report) } else { show::usage(&report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_claims_no_more_than_is_true() {
        let (all, none) = (r#"{"since": "2027-01-01T00:00:00Z"}"#, "{}");
        let of = |tenant, paused: &str, tenants: &str, draining: bool| {
            let json = format!(
                r#"{{"paused": {paused}, "paused_tenants": {tenants}, "draining": {draining},
                    "persistent": true}}"#
            );
            resumed(tenant, &serde_json::from_str(&json).unwrap())
        };
        let team = format!(r#"{{"team": {all}}}"#);
        assert_eq!(of(None, "null", none, false), "resumed");
        assert_eq!(of(Some("a"), "null", &team, false), "resumed");
        assert!(of(None, "null", &team, false).ends_with("paused by themselves: team"));
        assert!(of(Some("a"), all, none, false).ends_with("but all tenants are"));
        for tenant in [None, Some("a")] {
            assert!(of(tenant, "null", none, true).contains("the daemon is draining"));
        }
    }
}
