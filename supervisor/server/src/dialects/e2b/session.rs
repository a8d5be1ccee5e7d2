//! Sessions as sandboxes: what E2B tells of one.

use std::collections::BTreeMap;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::{PolicyEntry, PolicyValue, duration};
use vivarium_client::path;

use super::ENVD_VERSION;
use super::sandboxes::{Sandbox, Tokens};
use crate::dialects::native::{self, Call, Native, Refusal};

/// The metadata of sessions that are sandboxes, and the name of their template.
pub(super) const MARK: &str = "e2b";
pub(super) const TEMPLATE: &str = "e2b.template";

/// That of sandboxes which requests resume.
pub(super) const AUTO_RESUME: &str = "e2b.auto_resume";

/// The members of a session that are used.
#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) environment: String,
    pub(super) created_at: Timestamp,
    pub(super) deadline: Option<Timestamp>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) network: String,
    #[serde(default)]
    limits: BTreeMap<String, Value>,
    #[serde(default)]
    usage: BTreeMap<String, Value>,
    #[serde(default)]
    policy: Vec<PolicyEntry>,
}

/// A session's use of its CPUs, as it was told last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    at: Timestamp,
    cpu_ms: f64,
}

/// The session of a sandbox.
pub(super) async fn find<N: Native>(native: &N, id: &str) -> Result<Session, Refusal> {
    let call = Call::new(Method::GET, path::session(id));
    let (session, _) = native::json::<N, Session>(native, call).await?;
    if session.metadata.contains_key(MARK) {
        return Ok(session);
    }
    Err(Refusal::unknown_session("sandbox", id))
}

impl Session {
    pub(super) fn is_paused(&self) -> bool {
        self.state == "suspended"
    }

    pub(super) fn state(&self) -> &'static str {
        if self.is_paused() { "paused" } else { "running" }
    }

    pub(super) fn max_exec_ms(&self) -> Option<u64> {
        let key = "session.max_exec_timeout";
        let entry = self.policy.iter().find(|entry| entry.key == key)?;
        let PolicyValue::Text(text) = &entry.value else { return None };
        u64::try_from(duration::parse(text).ok()?.as_millis()).ok()
    }

    fn limit(&self, name: &str) -> Option<f64> {
        self.limits.get(name).and_then(Value::as_f64)
    }

    fn used(&self, name: &str) -> f64 {
        self.usage.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn cpus(&self) -> f64 {
        let of_host = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let of_host = || u32::try_from(of_host()).map_or(1.0, f64::from);
        self.limit("cpu_cores").unwrap_or_else(of_host).max(0.01)
    }

    pub(super) fn template(&self) -> &str {
        self.metadata.get(TEMPLATE).map_or(self.environment.as_str(), String::as_str)
    }

    /// Without what the dialect keeps there.
    pub(super) fn metadata(&self) -> BTreeMap<&str, &str> {
        let all = self.metadata.iter().filter(|(key, _)| !is_own(key));
        all.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// When the sandbox ends; a far day if it does not.
    fn end_at(&self) -> Timestamp {
        let never = || self.created_at.checked_add(SignedDuration::from_hours(24 * 365));
        self.deadline.unwrap_or_else(|| never().unwrap_or(Timestamp::MAX))
    }

    /// What is told of it when it is made or connected to.
    pub(super) fn opened(&self, tokens: &Tokens) -> Value {
        json!({
            "templateID": self.template(),
            "sandboxID": self.id,
            "clientID": "vivarium",
            "envdVersion": ENVD_VERSION,
            "alias": self.template(),
            "envdAccessToken": tokens.envd,
            "trafficAccessToken": tokens.traffic,
            "domain": null,
        })
    }

    /// What lists tell of it.
    pub(super) fn listed(&self) -> Value {
        json!({
            "templateID": self.template(),
            "alias": self.template(),
            "sandboxID": self.id,
            "clientID": "vivarium",
            "startedAt": written(self.created_at),
            "endAt": written(self.end_at()),
            "cpuCount": whole(self.cpus().ceil()),
            "memoryMB": whole(self.limit("max_memory_mb").unwrap_or(0.0)),
            "diskSizeMB": whole(self.limit("max_disk_mb").unwrap_or(0.0)),
            "state": self.state(),
            "envdVersion": ENVD_VERSION,
            "metadata": self.metadata(),
        })
    }

    /// What is told of it alone.
    pub(super) fn detail(&self) -> Value {
        let mut told = self.listed();
        if let Some(members) = told.as_object_mut() {
            let has_internet = matches!(self.network.as_str(), "trusted" | "full");
            members.insert("allowInternetAccess".to_owned(), json!(has_internet));
            members.insert("domain".to_owned(), Value::Null);
            let auto_resume = self.metadata.contains_key(AUTO_RESUME);
            let lifecycle = json!({"autoResume": auto_resume, "onTimeout": "kill"});
            members.insert("lifecycle".to_owned(), lifecycle);
        }
        told
    }

    /// What it uses now; the CPUs, since this was last asked.
    pub(super) fn metrics(&self, sandbox: Option<&Sandbox>) -> Value {
        let now = Sample { at: Timestamp::now(), cpu_ms: self.used("cpu_ms") };
        let kept = sandbox.and_then(|sandbox| {
            let mut kept = sandbox.sample.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            kept.replace(now)
        });
        let before = kept.unwrap_or(Sample { at: self.created_at, cpu_ms: 0.0 });
        let mib = f64::from(1 << 20);
        json!({
            "timestamp": written(now.at),
            "timestampUnix": now.at.as_second(),
            "cpuCount": whole(self.cpus().ceil()),
            "cpuUsedPct": now.percent_since(before, self.cpus()),
            "memUsed": whole(self.used("memory_bytes")),
            "memTotal": whole(self.limit("max_memory_mb").unwrap_or(0.0) * mib),
            "memCache": 0,
            "diskUsed": whole(self.used("disk_bytes")),
            "diskTotal": whole(self.limit("max_disk_mb").unwrap_or(0.0) * mib),
        })
    }
}

impl Sample {
    fn percent_since(self, before: Self, cpus: f64) -> f64 {
        let elapsed_ms = self.at.duration_since(before.at).as_secs_f64() * 1e3;
        let used_ms = self.cpu_ms - before.cpu_ms;
        if elapsed_ms < 1.0 { 0.0 } else { (used_ms / elapsed_ms / cpus * 100.0).clamp(0.0, 100.0) }
    }
}

/// Whether a key of metadata is the dialect's.
pub(super) fn is_own(key: &str) -> bool {
    key == MARK || key.strip_prefix(MARK).is_some_and(|rest| rest.starts_with('.'))
}

/// The time as all clients read it: some take six digits after the point at most.
fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// A number without a point, which is what SDKs parse.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, checked")]
fn whole(number: f64) -> u64 {
    if (0.0..1e18).contains(&number) { number as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        serde_json::from_value(json!({
            "id": "i1", "state": "idle", "environment": "default", "network": "loopback",
            "created_at": "2026-01-01T12:00:00Z", "deadline": "2026-01-01T12:05:00Z",
            "metadata": {"e2b": "1", "e2b.template": "base", "e2bx": "mine", "k": "v"},
            "limits": {"max_memory_mb": 512, "cpu_cores": 0.5, "max_disk_mb": "unlimited"},
            "usage": {"cpu_ms": 5.0, "memory_bytes": null, "disk_bytes": 4096},
            "policy": [{"key": "session.max_exec_timeout", "value": "1h", "source": "default"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_session_is_a_sandbox() {
        let told = session().detail();
        assert_eq!(told["metadata"], json!({"e2bx": "mine", "k": "v"}));
        assert_eq!(told["endAt"], "2026-01-01T12:05:00.000000Z");
        assert_eq!((&told["cpuCount"], &told["memoryMB"]), (&json!(1), &json!(512)));
        assert_eq!((&told["diskSizeMB"], &told["templateID"]), (&json!(0), &json!("base")));
        assert_eq!(session().max_exec_ms(), Some(3_600_000));
        let metrics = session().metrics(None);
        assert_eq!((&metrics["diskUsed"], &metrics["memUsed"]), (&json!(4096), &json!(0)));
    }

    #[test]
    fn use_of_cpus_is_a_share_of_what_there_is() {
        let at = |text: &str, cpu_ms| Sample { at: text.parse().unwrap(), cpu_ms };
        let before = at("2026-01-01T12:00:00Z", 100.0);
        let now = at("2026-01-01T12:00:01Z", 600.0);
        assert!((now.percent_since(before, 2.0) - 25.0).abs() < 1e-9);
        assert!(now.percent_since(now, 1.0).abs() < 1e-9);
    }
}
