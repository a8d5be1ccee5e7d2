//! An execution's outcome, as the API gives it.

use serde_json::Value;

/// The JSON object that `execute` and `run` answer with.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome(pub Value);

impl Outcome {
    /// A member that is text; empty if it is null.
    #[must_use]
    #[track_caller]
    pub fn text(&self, member: &str) -> &str {
        match &self.0[member] {
            Value::String(text) => text,
            Value::Null if self.0.get(member).is_some() => "",
            _ => panic!("{member} in {self}"),
        }
    }

    /// `ok`, `error`, `timed_out`, `interrupted`, `killed` or `rejected`.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> &str {
        self.text("status")
    }

    /// The cause; empty if it is null.
    #[must_use]
    #[track_caller]
    pub fn cause(&self) -> &str {
        self.text("cause")
    }

    /// `preserved` or `lost`.
    #[must_use]
    #[track_caller]
    pub fn state(&self) -> &str {
        self.text("state")
    }

    /// What was printed.
    #[must_use]
    #[track_caller]
    pub fn stdout(&self) -> &str {
        self.text("stdout")
    }

    /// What was printed as errors.
    #[must_use]
    #[track_caller]
    pub fn stderr(&self) -> &str {
        self.text("stderr")
    }

    /// The evidence, in words.
    #[must_use]
    #[track_caller]
    pub fn detail(&self) -> &str {
        self.text("detail")
    }

    /// `repr()` of the final expression's value; empty if there is none.
    #[must_use]
    pub fn result(&self) -> &str {
        self.0["result"]["repr"].as_str().unwrap_or_default()
    }

    /// The exception's class; empty if there is none.
    #[must_use]
    pub fn exception(&self) -> &str {
        self.0["exception"]["type"].as_str().unwrap_or_default()
    }

    /// The traceback; empty if there is none.
    #[must_use]
    pub fn traceback(&self) -> &str {
        self.0["exception"]["traceback"].as_str().unwrap_or_default()
    }

    /// Passes on an outcome that has to be `ok`.
    #[must_use]
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!((self.status(), self.state()), ("ok", "preserved"), "{self}");
        self
    }

    /// Checks how it ended.
    #[must_use]
    #[track_caller]
    pub fn ended(self, status: &str, cause: &str, state: &str) -> Self {
        assert_eq!((self.status(), self.cause(), self.state()), (status, cause, state), "{self}");
        self
    }

    /// Passes on an outcome that has to be this exception, with the state preserved.
    #[must_use]
    #[track_caller]
    pub fn raised(self, exception: &str) -> Self {
        let found = (self.status(), self.state(), self.exception());
        assert_eq!(found, ("error", "preserved", exception), "{self}");
        self
    }

    /// What was printed, as JSON.
    #[must_use]
    #[track_caller]
    pub fn printed_json(&self) -> Value {
        serde_json::from_str(self.stdout()).unwrap_or_else(|error| panic!("{error} in {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:#}", self.0);
        match text.char_indices().nth(8000) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(&text),
        }
    }
}
