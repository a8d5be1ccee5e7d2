//! The session that a call of a client runs in.

use http::Method;
use serde_json::json;
use uuid::Uuid;
use vivarium_client::path;

use super::native::{self, Call, Native, Refusal};

/// The session of a call, made for it if it names none. A session that was made for a call which does
/// not come to its end is ended.
pub(super) struct Place<N: Native> {
    pub(super) native: N,
    pub(super) id: String,
    pub(super) is_ours: bool,
}

impl<N: Native> Place<N> {
    /// Without a session it gets a random id of so many characters, which begins with this prefix.
    pub(super) fn of(native: &N, session: Option<String>, prefix: &str, chars: usize) -> Self {
        let is_ours = session.is_none();
        let random = || {
            let mut id = format!("{prefix}{}", Uuid::new_v4().simple());
            id.truncate(chars);
            id
        };
        Self { native: native.clone(), id: session.unwrap_or_else(random), is_ours }
    }

    /// Makes the session, if it is to be made.
    pub(super) async fn make(&self) -> Result<(), Refusal> {
        if self.is_ours {
            let call = Call::new(Method::POST, "/v1/sessions").json(&json!({"id": self.id}));
            drop(native::whole(&self.native, call).await?);
        }
        Ok(())
    }

    /// The client is about to learn the id.
    pub(super) fn keep(&mut self) {
        self.is_ours = false;
    }
}

impl<N: Native> Drop for Place<N> {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        // Without a runtime this process is at its end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (native, id) = (self.native.clone(), self.id.clone());
        runtime.spawn(async move {
            // There may be none, if it was refused.
            let ended = native.call(Call::new(Method::DELETE, path::session(&id)));
            if let Err(refusal) = ended.await {
                tracing::debug!(session = id, ?refusal, "not ended, and left to the reaper");
            }
        });
    }
}
