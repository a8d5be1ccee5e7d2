//! The answer to a call, checked.

use sha2::{Digest, Sha256};
use vivarium_api_types::{CallAnswer, CallOutcome, JsonText};

use super::table::CallNumber;
use super::wire::Kind;
use super::{MAX_CALL_BYTES, MAX_CALL_DEPTH};
use crate::budget::Reservation;

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerRefusal {
    /// There was no such call.
    Unknown,
    /// It was answered otherwise.
    Answered,
    /// It waits no more.
    Over,
    /// The answer is none: which field, and why.
    Invalid(&'static str, String),
}

/// An answer of the client's to a call.
#[derive(Debug)]
pub(crate) struct ClientAnswer {
    pub(super) call: CallNumber,
    pub(super) kind: Kind,
    pub(super) outcome: CallOutcome,
    pub(super) json: String,
    /// By which the same answer is known again.
    pub(super) digest: [u8; 32],
    /// What it takes of the daemon's memory.
    pub(super) reservation: Option<Reservation>,
}

impl ClientAnswer {
    /// # Errors
    /// [`AnswerRefusal::Invalid`]
    pub(crate) fn new(
        call: CallNumber,
        answer: &CallAnswer,
        reservation: Option<Reservation>,
    ) -> Result<Self, AnswerRefusal> {
        let (kind, outcome, json) = checked(answer)?;
        let digest = Sha256::new().chain_update([kind as u8]).chain_update(&json).finalize().into();
        Ok(Self { call, kind, outcome, json, digest, reservation })
    }
}

/// An answer as the kernel gets it.
pub(super) fn checked(answer: &CallAnswer) -> Result<(Kind, CallOutcome, String), AnswerRefusal> {
    let (field, kind, outcome, json, depth) = match (&answer.result, &answer.error) {
        (Some(result), None) => {
            let json = result.as_str().to_owned();
            ("result", Kind::Result, CallOutcome::Result, json, result.depth())
        }
        (None, Some(error)) => {
            let depth = error.data.as_ref().map_or(0, JsonText::depth);
            let json = serde_json::to_string(error)
                .map_err(|error| AnswerRefusal::Invalid("error", error.to_string()))?;
            ("error", Kind::Error, CallOutcome::Error, json, depth)
        }
        _ => {
            let reason = "give either result or error".to_owned();
            return Err(AnswerRefusal::Invalid("result", reason));
        }
    };
    if json.len() > MAX_CALL_BYTES {
        let reason = format!("it is over the maximum of {MAX_CALL_BYTES} bytes");
        return Err(AnswerRefusal::Invalid(field, reason));
    }
    if depth > MAX_CALL_DEPTH {
        let reason = format!("it is nested more than {MAX_CALL_DEPTH} deep");
        return Err(AnswerRefusal::Invalid(field, reason));
    }
    Ok((kind, outcome, json))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_results_or_errors_within_bounds() {
        let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
        for bad in [
            json!({}),
            json!({"result": 1, "error": {"message": "x"}}),
            json!({"result": deep}),
            json!({"error": {"message": "x", "data": deep}}),
            json!({"result": "x".repeat(MAX_CALL_BYTES)}),
        ] {
            let refusal = checked(&serde_json::from_value(bad).unwrap()).unwrap_err();
            assert!(matches!(refusal, AnswerRefusal::Invalid(..)), "{refusal:?}");
        }
        assert!(checked(&serde_json::from_value(json!({"result": [null]})).unwrap()).is_ok());
    }
}
