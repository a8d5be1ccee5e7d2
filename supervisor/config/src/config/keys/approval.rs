//! `[approval]`

use vivarium_api_types::Remember;
use vivarium_engine::settings::{ApprovalRule, SecretSource};

use super::{egress, no_such, put, url};
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

const RULES: &[&str] = &["allow", "deny", "ask"];
const REMEMBERED: &[&str] = &["nothing", "session", "tenant"];

/// Each may show 64 KiB of code.
const MAX_WAITING: u64 = 1_000;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "executions",
        kind: Kind::Choice(RULES),
        default: DefaultValue::Toml("\"allow\""),
        flag: None,
        reloads: true,
        doc: "Code, commands and runs: `allow` runs them, `deny` refuses them with 403, and `ask` has \
              each wait until somebody decides.",
        set: Setter::Approval(|approval, value| put(&mut approval.executions, rule(value))),
    },
    Key {
        name: "egress",
        kind: Kind::Choice(RULES),
        default: DefaultValue::Toml("\"deny\""),
        flag: None,
        reloads: true,
        doc: "Destinations of network `trusted` that are on no list: `deny` refuses them, `ask` has each \
              host and port wait until somebody decides, and `allow` reaches any public address, by any \
              method. Addresses are checked all the same, and lists keep their methods.",
        set: Setter::Approval(|approval, value| put(&mut approval.egress, rule(value))),
    },
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"5m\""),
        flag: None,
        reloads: true,
        doc: "How long a call waits for a decision. Then it is denied.",
        set: Setter::Approval(|approval, value| put(&mut approval.timeout, value.duration())),
    },
    Key {
        name: "remember",
        kind: Kind::Choice(REMEMBERED),
        default: DefaultValue::Toml("\"nothing\""),
        flag: None,
        reloads: true,
        doc: "What an approval allows beyond the call: `nothing`, the same call in the same `session`, or \
              the same call in any session of the `tenant` for `remember_for`. Whoever decides may say \
              less. [Approvals](approvals.md#what-is-remembered) says what is the same.",
        set: Setter::Approval(|approval, value| put(&mut approval.remember, remember(value))),
    },
    Key {
        name: "remember_for",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"24h\""),
        flag: None,
        reloads: true,
        doc: "How long, with `remember = \"tenant\"`. A restart forgets.",
        set: Setter::Approval(|approval, value| put(&mut approval.remember_for, value.duration())),
    },
    Key {
        name: "max_waiting",
        kind: Kind::Count,
        default: DefaultValue::Toml("50"),
        flag: None,
        reloads: true,
        doc: "Calls of a tenant that wait at one time, at most 1000. Another one is refused with 429, \
              `quota_exceeded`.",
        set: Setter::Approval(|approval, value| {
            let count = value.count()?;
            if count > MAX_WAITING {
                return Err(ValueError::Unfit(format!("{count} is more than {MAX_WAITING}")));
            }
            approval.max_waiting = count;
            Ok(())
        }),
    },
    Key {
        name: "webhook_url",
        kind: Kind::Text,
        default: DefaultValue::Unset("nobody is told"),
        flag: None,
        reloads: true,
        doc: "Where calls that begin to wait are sent, as JSON by POST, through the egress gate. The \
              answer may [decide](approvals.md#a-web-service-that-decides).",
        set: Setter::Approval(|approval, value| {
            put(&mut approval.webhook.url, url(value.text()?).map(Some))
        }),
    },
    Key {
        name: "webhook_secret_file",
        kind: Kind::Path,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "A file with the secret that signs these requests: `whsec_` and 24 to 64 bytes in base64. It \
              is read for each request; a start or reload is refused if the daemon's user cannot read it. \
              `webhook_url` needs it, or the next.",
        set: Setter::Approval(|approval, value| {
            put(&mut approval.webhook.secret, value.path().map(|it| Some(SecretSource::File(it))))
        }),
    },
    Key {
        name: "webhook_secret_credential",
        kind: Kind::Text,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "The same as a credential of the unit (`LoadCredential=`), by its name.",
        set: Setter::Approval(|approval, value| {
            let name = egress::credential_name(value.text()?)?;
            approval.webhook.secret = Some(SecretSource::Credential(name));
            Ok(())
        }),
    },
    Key {
        name: "webhook_code",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: true,
        doc: "Whether these requests have the code and commands that are to run, up to 64 KiB, and not \
              their hash and length alone.",
        set: Setter::Approval(|approval, value| {
            put(&mut approval.webhook.sends_code, value.is_true())
        }),
    },
    Key {
        name: "webhook_allow_addresses",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Addresses and networks (`10.1.0.0/16`) in which the webhook may be although they are private \
              or the host's own. Sessions do not reach them by this.",
        set: Setter::Approval(|approval, value| {
            put(&mut approval.webhook.allow_addresses, egress::networks(value))
        }),
    },
];

fn rule(value: &Value) -> Result<ApprovalRule, ValueError> {
    match value.text()? {
        "allow" => Ok(ApprovalRule::Allow),
        "deny" => Ok(ApprovalRule::Deny),
        "ask" => Ok(ApprovalRule::Ask),
        other => Err(no_such(other, RULES)),
    }
}

fn remember(value: &Value) -> Result<Remember, ValueError> {
    match value.text()? {
        "nothing" => Ok(Remember::Nothing),
        "session" => Ok(Remember::Session),
        "tenant" => Ok(Remember::Tenant),
        other => Err(no_such(other, REMEMBERED)),
    }
}
