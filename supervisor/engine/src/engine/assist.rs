//! Questions to a session's kernel about code that is being written. They wait for nobody: a
//! session that runs something is busy.

use std::time::Duration;

use serde::de::DeserializeOwned;
use vivarium_api_types::{AssistReply, Outcome, ProbeRequest};
use vivarium_protocol::message::Work;
use vivarium_protocol::outcome::Cause;

use super::execute::ResponseMode;
use super::{Engine, EngineError};
use crate::session::WorkSpec;
use crate::session::calls::tool::AskedTools;

/// How long a kernel may take. Then it is interrupted like any code.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";

impl Engine {
    /// Asks a session's kernel about code.
    ///
    /// # Errors
    /// [`EngineError`], of which [`EngineError::Busy`] if something runs or waits, or the session is
    /// interrupted or reset meanwhile.
    pub async fn assist<T: AssistReply>(
        &self,
        tenant: &str,
        id: &str,
        request: T::Request,
    ) -> Result<T, EngineError> {
        let (code, cursor, context) = checked(request.into())?;
        let work = Work::Assist { kind: T::KIND, code, cursor };
        self.check_admits(tenant)?;
        let session = self.awake(tenant, id).await?;
        let spec = WorkSpec {
            work,
            files: Vec::new(),
            outputs: Vec::new(),
            timeout: ANSWER_WITHIN,
            cancel_on_disconnect: true,
            queued: true,
            descriptor: None,
            survives_reset: false,
            context,
            asked_tools: AskedTools::default(),
            tools: None,
            asked_policy: Default::default(),
            approval: None,
        };
        let handle =
            self.hand_over(&session, (spec, None), ResponseMode::Outcome, false, None).await?;
        // It is in the session's queue: whoever has the session stand still may have it wait there.
        drop(session);
        answer_of(id, &*handle.outcome().await?)
    }
}

/// What a kernel answered to a question.
pub(super) fn answer_of<T: DeserializeOwned>(
    id: &str,
    outcome: &Outcome,
) -> Result<T, EngineError> {
    let answer = outcome.result.as_ref().and_then(|value| value.mime.get(JSON));
    let Some(answer) = answer else {
        return Err(match outcome.cause {
            // Somebody else's doing, and no fault of the kernel's.
            Some(Cause::Interrupt | Cause::Reset | Cause::Suspended) => EngineError::Busy,
            Some(Cause::Deleted | Cause::Expired) => EngineError::UnknownSession(id.to_owned()),
            _ if outcome.detail.is_empty() => EngineError::NoAnswer("it said nothing".to_owned()),
            _ => EngineError::NoAnswer(outcome.detail.clone()),
        });
    };
    // What a kernel says is not believed: tenant code may have written it.
    serde_json::from_str(answer).map_err(|error| EngineError::NoAnswer(error.to_string()))
}

/// The code, the place in it, and whose kernel is asked.
fn checked(request: ProbeRequest) -> Result<(String, u32, Option<String>), EngineError> {
    let ProbeRequest { code, cursor, context } = request;
    let length = u32::try_from(code.chars().count())
        .map_err(|_| EngineError::invalid("code", "it is too long"))?;
    match cursor {
        Some(cursor) if cursor > length => {
            let reason = format!("the code has {length} characters");
            Err(EngineError::invalid("cursor", reason))
        }
        cursor => Ok((code, cursor.unwrap_or(length), context)),
    }
}
