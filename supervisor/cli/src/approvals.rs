//! `vivarium approvals`: calls that wait until somebody allows or denies them.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::{ApprovalDecision, ApprovalInfo, DecideRequest, Remember};
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::terminal::escape;
use super::{human, print, target};

/// How often `list --watch` asks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What to do with calls that wait for approval.
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Calls are decided on the daemon's Unix socket by root or its own user, or \
                        with a token of scope `approve` or `admin` in VIVARIUM_TOKEN."
)]
pub(super) enum Command {
    /// Lists calls that wait.
    List(ListArgs),
    /// Shows a call with the code that is to run.
    Show(ShowArgs),
    /// Allows a call.
    Allow(AllowArgs),
    /// Denies a call.
    Deny(DenyArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium approvals list --watch")]
pub(super) struct ListArgs {
    /// Includes those of the last minutes that wait no more
    #[arg(short, long)]
    all: bool,
    /// Goes on, and prints each call once
    #[arg(short, long, conflicts_with = "all")]
    watch: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The approval's id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RememberArg {
    Nothing,
    Session,
    Tenant,
}

#[derive(Debug, Args)]
pub(super) struct AllowArgs {
    #[command(flatten)]
    one: ShowArgs,
    /// What to remember of it [default: what the tenant's rule says]
    #[arg(long, value_name = "WHAT")]
    remember: Option<RememberArg>,
    /// Why; the tenant sees it too
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct DenyArgs {
    #[command(flatten)]
    one: ShowArgs,
    /// Why; the tenant sees it too
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let daemon = match command {
        Command::List(ListArgs { daemon, .. })
        | Command::Show(ShowArgs { daemon, .. })
        | Command::Allow(AllowArgs { one: ShowArgs { daemon, .. }, .. })
        | Command::Deny(DenyArgs { one: ShowArgs { daemon, .. }, .. }) => daemon,
    };
    let client = &mut Client::new(daemon.url.of_administrators()?);
    target::block_on(async {
        match command {
            Command::List(args) if args.watch => watch(client, args).await?,
            Command::List(args) => {
                let approvals = client.all_approvals(args.all).await?;
                if args.daemon.json {
                    print::json(&approvals)?;
                } else {
                    print::out(table(&approvals).as_bytes())?;
                }
            }
            Command::Show(args) => {
                let approval = client.approval(&args.id).await?;
                if args.daemon.json {
                    print::json(&approval)?;
                } else {
                    print::out(shown(&approval).as_bytes())?;
                }
            }
            Command::Allow(AllowArgs { one, remember, reason }) => {
                let remember = remember.map(|remember| match remember {
                    RememberArg::Nothing => Remember::Nothing,
                    RememberArg::Session => Remember::Session,
                    RememberArg::Tenant => Remember::Tenant,
                });
                let (decision, reason) = (ApprovalDecision::Allow, reason.clone());
                decide(client, one, DecideRequest { decision, remember, reason }).await?;
            }
            Command::Deny(DenyArgs { one, reason }) => {
                let (decision, reason) = (ApprovalDecision::Deny, reason.clone());
                decide(client, one, DecideRequest { decision, remember: None, reason }).await?;
            }
        }
        Ok(Exit::Ok)
    })
}

async fn decide(
    client: &mut Client,
    one: &ShowArgs,
    request: DecideRequest,
) -> Result<(), Failure> {
    let approval = client.decide(&one.id, &request).await?;
    one.daemon.confirm(&one.id, &approval, &human::word(&approval.state))
}

/// Prints each call that waits, as it comes.
async fn watch(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    loop {
        let approvals = client.all_approvals(false).await?;
        let new: Vec<_> = approvals.iter().filter(|one| !seen.contains(&one.id)).cloned().collect();
        if args.daemon.json {
            new.iter().try_for_each(print::json)?;
        } else if !new.is_empty() {
            print::out(table(&new).as_bytes())?;
        }
        seen = approvals.into_iter().map(|one| one.id).collect();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn table(approvals: &[ApprovalInfo]) -> String {
    let now = Timestamp::now();
    let heading = ["ID", "STATE", "TENANT", "SESSION", "WANTS", "ASKED", "EXPIRES", "BY"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for approval in approvals {
        rows.push(vec![
            approval.id.clone(),
            human::word(&approval.state),
            approval.tenant.clone(),
            approval.session_id.clone(),
            escape(&wants(approval)).into_owned(),
            human::when(approval.asked_at, now),
            human::when(approval.expires_at, now),
            approval.by.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    print::table(&rows, &[])
}

fn wants(approval: &ApprovalInfo) -> String {
    match (&approval.execution, &approval.egress) {
        (Some(execution), _) => {
            let hash = execution.code_sha256.get(..12).unwrap_or_default();
            format!(
                "{} {hash} ({})",
                human::word(&execution.kind),
                human::size(execution.code_bytes)
            )
        }
        (None, Some(egress)) => format!("{}:{}", egress.host, egress.port),
        (None, None) => "-".to_owned(),
    }
}

/// Tenant code is shown with everything escaped that a terminal would act on.
fn shown(approval: &ApprovalInfo) -> String {
    let mut lines = vec![
        format!("{}: {} of {}", approval.id, human::word(&approval.state), approval.tenant),
        format!("session {}: {}", approval.session_id, wants(approval)),
        format!("asked {}, expires {}", approval.asked_at, approval.expires_at),
    ];
    if let (Some(by), reason) = (&approval.by, approval.reason.as_deref().unwrap_or("-")) {
        lines.push(escape(&format!("decided by {by}: {reason}")).into_owned());
    }
    if let Some(execution) = &approval.execution {
        lines.push(format!(
            "environment {}, sha256 {}",
            execution.environment, execution.code_sha256
        ));
        for (what, names) in [
            ("variables", &execution.env),
            ("files", &execution.files),
            ("tools", &execution.tools),
        ] {
            if !names.is_empty() {
                lines.push(format!("{what}: {names:?}"));
            }
        }
        if let Some(argv) = &execution.argv {
            lines.push(format!("{argv:?}"));
        }
        if let Some(code) = &execution.code {
            lines.push(String::new());
            lines.push(escape(code).into_owned());
        }
        if execution.truncated {
            lines.push(format!("… cut off: {} bytes in all", execution.code_bytes));
        }
    }
    lines.join("\n") + "\n"
}
