//! Telling a web service of calls that wait, through the egress gate.
//!
//! Requests are signed as Standard Webhooks has it (HMAC-SHA256 over id, time and body), and sent again
//! with growing pauses until one is accepted or nobody waits any more. What is answered may decide. Only
//! the answer to a request of ours can: it comes over the connection that the gate made. Whatever goes
//! wrong leaves the call to the queue, and its deadline denies it.

mod secret;

use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use vivarium_api_types::{
    ApprovalDecision, ApprovalInfo, ApprovalState, DecideRequest, MAX_REASON_CHARS, Remember,
};
use vivarium_egress::message::{Call, CallResponse};
use vivarium_metrics::families::approvals::WebhookResult;

use super::Egress;
use crate::approvals::Approvals;
use crate::settings::Webhook;
use secret::key;

pub use secret::{WebhookSecretError, check_webhook_secret};

/// Who decided.
const BY: &str = "webhook";

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Pauses between requests: the first, and the longest. Half of each is random.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The most requests under way.
const AT_ONCE: usize = 32;

/// More than an answer that decides needs.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// What is sent.
#[derive(Debug, Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Timestamp,
    data: &'a ApprovalInfo,
}

/// What is answered, if it decides. More than this may be said, and means nothing.
#[derive(Debug, Deserialize)]
struct Answer {
    decision: ApprovalDecision,
    #[serde(default)]
    remember: Option<Remember>,
    #[serde(default)]
    reason: Option<String>,
}

/// What became of one request.
enum Sent {
    Decided(Answer),
    /// It is left to the queue.
    Accepted,
    Failed(String),
    /// Nothing more is wanted there: 410, as Standard Webhooks has it.
    Gone,
}

/// Has the web service told of calls that wait, if one is configured, through the egress gate.
#[expect(clippy::disallowed_methods, reason = "few calls of each tenant wait")]
pub fn tell_webhook(approvals: &Arc<Approvals>, egress: Arc<Egress>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    approvals.announce_to(sender);
    tokio::spawn(run(Arc::downgrade(approvals), egress, receiver));
}

/// Tells of each call that begins to wait, until nobody has the approvals any more.
async fn run(
    approvals: Weak<Approvals>,
    egress: Arc<Egress>,
    mut asked: mpsc::UnboundedReceiver<String>,
) {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(id) = asked.recv().await {
        let (approvals, egress) = (Weak::clone(&approvals), Arc::clone(&egress));
        let at_once = Arc::clone(&at_once);
        tokio::spawn(async move { deliver(&approvals, &egress, &id, &at_once).await });
    }
}

async fn deliver(approvals: &Weak<Approvals>, egress: &Egress, id: &str, at_once: &Semaphore) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Ok(permit) = at_once.acquire().await else { return };
        let Some(approvals) = approvals.upgrade() else { return };
        let Some(info) = approvals.get(None, id) else { return };
        let Some(webhook) = approvals.webhook() else { return };
        if info.state != ApprovalState::Pending {
            return;
        }
        let sent = send(egress, &webhook, info).await;
        drop(permit);
        let count = |result| approvals.metrics.approvals.called_webhook(result);
        match sent {
            Sent::Decided(answer) => {
                count(WebhookResult::Decided);
                decide(&approvals, id, answer);
                return;
            }
            Sent::Accepted => return count(WebhookResult::Accepted),
            Sent::Gone => {
                count(WebhookResult::Failed);
                tracing::warn!(approval = id, "the webhook of approvals wants no more (410)");
                return;
            }
            Sent::Failed(why) => {
                count(WebhookResult::Failed);
                tracing::warn!(approval = id, why, "the webhook of approvals");
            }
        }
        drop(approvals);
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Between half of it and all.
fn jittered(pause: Duration) -> Duration {
    let random = u32::try_from(uuid::Uuid::new_v4().as_u128() >> 96).unwrap_or(0);
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

async fn send(egress: &Egress, webhook: &Webhook, mut info: ApprovalInfo) -> Sent {
    if let Some(execution) = &mut info.execution
        && !webhook.sends_code
    {
        (execution.code, execution.argv) = (None, None);
    }
    let now = Timestamp::now();
    let message = Message { kind: "approval.requested", timestamp: now, data: &info };
    let body = match serde_json::to_vec(&message) {
        Ok(body) => body,
        Err(error) => return Sent::Failed(error.to_string()),
    };
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("user-agent".to_owned(), concat!("vivarium/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("webhook-id".to_owned(), info.id.clone()),
        ("webhook-timestamp".to_owned(), now.as_second().to_string()),
    ];
    match webhook.secret.as_ref().map(key).transpose() {
        Ok(None) => return Sent::Failed("it has no secret".to_owned()),
        Ok(Some(key)) => {
            let signature = signature(&key, &info.id, now.as_second(), &body);
            headers.push(("webhook-signature".to_owned(), signature));
        }
        Err(error) => return Sent::Failed(vivarium_protocol::error_chain(&error)),
    }
    let call = Call {
        method: "POST".to_owned(),
        url: webhook.url.clone().unwrap_or_default(),
        headers,
        body,
        timeout: TIMEOUT,
        max_response_bytes: MAX_ANSWER_BYTES,
        allow_addresses: webhook.allow_addresses.clone(),
    };
    match egress.call(call).await {
        Ok(response) => judge(&response),
        Err(error) => Sent::Failed(error.to_string()),
    }
}

/// Redirects are failures: the gate follows none, and the signature was for this URL.
fn judge(response: &CallResponse) -> Sent {
    match response.status {
        200 => match serde_json::from_slice(&response.body) {
            Ok(answer) => Sent::Decided(answer),
            Err(_) => Sent::Accepted,
        },
        201..=299 => Sent::Accepted,
        410 => Sent::Gone,
        status => Sent::Failed(format!("it answered with {status}")),
    }
}

fn decide(approvals: &Approvals, id: &str, answer: Answer) {
    let Answer { decision, remember, reason } = answer;
    let Some(info) = approvals.get(None, id) else { return };
    // More than the rule says is as much as that.
    let remember = remember.map(|remember| remember.min(info.remember));
    let reason = reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect());
    let request = DecideRequest { decision, remember, reason };
    if let Err(error) = approvals.decide(None, id, BY, request) {
        tracing::info!(approval = id, ?error, "the webhook's answer came too late");
    }
}

/// As Standard Webhooks has it: version 1, over what makes each request another.
fn signature(key: &[u8], id: &str, second: i64, body: &[u8]) -> String {
    // Keys of any length are taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(format!("{id}.{second}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn signature_is_that_of_the_specification() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signature = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_an_answer_of_200_decides() {
        let of = |status, body: &str| {
            judge(&CallResponse { status, headers: vec![], body: body.as_bytes().to_vec() })
        };
        let allow = r#"{"decision": "allow", "more": 1}"#;
        assert!(matches!(of(200, allow), Sent::Decided(_)));
        for (status, body) in
            [(202, allow), (204, ""), (200, ""), (200, "{}"), (200, r#"{"decision": "maybe"}"#)]
        {
            assert!(matches!(of(status, body), Sent::Accepted), "{status} {body}");
        }
        for status in [301, 307, 400, 401, 500, 503] {
            assert!(matches!(of(status, allow), Sent::Failed(_)), "{status}");
        }
        assert!(matches!(of(410, allow), Sent::Gone));
    }
}
