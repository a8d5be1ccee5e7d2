//! A sandbox that is asked for, as the session that it is to be.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::errors::bad;
use super::session::{self, AUTO_RESUME, MARK, TEMPLATE};
use crate::dialects::native::Refusal;

/// The time of a sandbox whose client says nothing, in seconds.
pub(super) const TIMEOUT_SECS: u64 = 300;

/// E2B's own templates, which are the default environment here.
const TEMPLATES: [&str; 2] = ["base", "code-interpreter-v1"];

/// What is asked of a new sandbox. Members that other versions of the SDKs send are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct New {
    #[serde(rename = "templateID")]
    template_id: Option<String>,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    auto_pause: Option<bool>,
    auto_resume: Option<AutoResume>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    network: Option<Map<String, Value>>,
    iam: Option<Value>,
    mcp: Option<Value>,
    volume_mounts: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AutoResume {
    enabled: bool,
}

impl New {
    /// What is asked that is not offered.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let is_there = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
        if self.auto_pause == Some(true) {
            return Some("autoPause");
        }
        if is_there(&self.mcp) {
            return Some("mcp");
        }
        if self.iam.as_ref().and_then(Value::as_object).is_some_and(|iam| !iam.is_empty()) {
            return Some("iam");
        }
        if self.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()) {
            return Some("volumeMounts");
        }
        let network = self.network.iter().flatten();
        // Tokens are always needed here, so that saying no is no wish for less.
        let mut wishes = network.filter(|(name, value)| {
            let is_default = *name == "allowPublicTraffic" && **value == Value::Bool(false);
            !(value.is_null() || is_default)
        });
        wishes.next().map(|_| "network")
    }

    /// The session that it is.
    ///
    /// # Errors
    /// [`Refusal`] for a time that there is not, and metadata that is the dialect's.
    pub(super) fn session(self, id: &str) -> Result<Value, Refusal> {
        let template = self.template_id.filter(|name| !name.is_empty());
        let template = template.unwrap_or_else(|| "base".to_owned());
        let mut metadata = self.metadata.unwrap_or_default();
        if let Some(key) = metadata.keys().find(|key| session::is_own(key)) {
            return Err(bad("metadata", format!("{key} is kept for the server")));
        }
        metadata.insert(MARK.to_owned(), "1".to_owned());
        metadata.insert(TEMPLATE.to_owned(), template.clone());
        let auto_resume = self.auto_resume.is_some_and(|auto| auto.enabled);
        if auto_resume {
            metadata.insert(AUTO_RESUME.to_owned(), "1".to_owned());
        }
        let own = [("E2B_SANDBOX", "true"), ("E2B_SANDBOX_ID", id), ("E2B_TEMPLATE_ID", &template)];
        let mut env = BTreeMap::from(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env.extend(self.env_vars.unwrap_or_default());
        let mut session = json!({
            "id": id,
            "metadata": metadata,
            "env": env,
            "deadline": after(self.timeout.unwrap_or(TIMEOUT_SECS))?.to_string(),
            "auto_resume": auto_resume,
        });
        if let Some(members) = session.as_object_mut() {
            if !TEMPLATES.contains(&template.as_str()) {
                members.insert("environment".to_owned(), json!(template));
            }
            if self.allow_internet_access == Some(false) {
                members.insert("network".to_owned(), json!("loopback"));
            }
        }
        Ok(session)
    }
}

/// The time after so many seconds.
pub(super) fn after(secs: u64) -> Result<Timestamp, Refusal> {
    let duration = i64::try_from(secs).ok().map(SignedDuration::from_secs);
    let time = duration.and_then(|duration| Timestamp::now().checked_add(duration).ok());
    time.ok_or_else(|| bad("timeout", "this is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(value: Value) -> New {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_the_sdks_send_by_default_is_offered() {
        let sent = json!({
            "templateID": "code-interpreter-v1", "timeout": 300, "metadata": {}, "envVars": {},
            "autoPause": false, "autoPauseMemory": true, "autoResume": {"enabled": false},
            "allow_internet_access": true, "secure": true,
        });
        let new = new(sent);
        assert_eq!(new.missing(), None);
        let session = new.session("i1").unwrap();
        assert_eq!(session["metadata"], json!({"e2b": "1", "e2b.template": "code-interpreter-v1"}));
        assert!(session.get("environment").is_none() && session.get("network").is_none());
        assert_eq!(session["auto_resume"], false);
        assert_eq!(session["env"]["E2B_SANDBOX_ID"], "i1");
    }

    #[test]
    fn what_is_not_offered_is_said() {
        for (sent, expected) in [
            (json!({"autoPause": true}), Some("autoPause")),
            (json!({"mcp": {"x": {}}}), Some("mcp")),
            (json!({"mcp": null}), None),
            (json!({"network": {"allowPublicTraffic": false}}), None),
            (json!({"network": {"denyOut": ["0.0.0.0/0"]}}), Some("network")),
            (json!({"volumeMounts": [{"name": "v", "path": "/v"}]}), Some("volumeMounts")),
        ] {
            assert_eq!(new(sent.clone()).missing(), expected, "{sent}");
        }
    }

    #[test]
    fn other_templates_are_environments_and_marks_are_not_set() {
        let session = new(json!({"templateID": "ml", "allow_internet_access": false}));
        let session = session.session("i1").unwrap();
        assert_eq!(
            (&session["environment"], &session["network"]),
            (&json!("ml"), &json!("loopback"))
        );
        let own = new(json!({"metadata": {"e2b.template": "x"}})).session("i1");
        assert_eq!(own.unwrap_err().field.as_deref(), Some("metadata"));
    }
}
