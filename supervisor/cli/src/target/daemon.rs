//! What the errors of a daemon mean for the exit code.

use vivarium_client::ClientError;
use vivarium_protocol::error_chain;

use crate::exit::{Exit, Failure};
use crate::options;

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Problem { status, .. } if status.as_u16() == 401 => {
                let about = if options::token().is_some() {
                    "what VIVARIUM_TOKEN holds is no token of its tenants (any more)"
                } else {
                    "it has tenants: set VIVARIUM_TOKEN to the token of one"
                };
                return Self::says(Exit::Usage, format!("the daemon refused: {about}"));
            }
            ClientError::Connect { .. } => {
                let why = error_chain(&error);
                let hint = "is the daemon running? `vivarium serve` starts one; without --url and \
                            VIVARIUM_URL, `run` and `repl` need none";
                return Self::says(Exit::Unavailable, format!("{why}; {hint}"));
            }
            ClientError::Problem { code, detail, .. } if code == "suspended" => {
                let why = error_chain(&error);
                return Self::says(Exit::Error, format!("{why}; {}", how_to_resume(detail)));
            }
            ClientError::Http { .. } => Exit::Unavailable,
            ClientError::Problem { status, .. } if [429, 503].contains(&status.as_u16()) => {
                Exit::Unavailable
            }
            ClientError::Problem { status, .. } if [400, 413, 422].contains(&status.as_u16()) => {
                Exit::Usage
            }
            _ => Exit::Error,
        };
        Self::new(exit, &error)
    }
}

/// The command for a session that no call resumes; its id is quoted in the daemon's explanation.
fn how_to_resume(detail: &str) -> String {
    let id = detail.split('"').nth(1).unwrap_or("SESSION");
    format!("`vivarium sessions resume {id}` resumes it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_engine::EngineError;

    #[test]
    fn the_command_that_resumes_a_session_names_it() {
        let detail = EngineError::Suspended("demo".to_owned()).to_string();
        assert_eq!(how_to_resume(&detail), "`vivarium sessions resume demo` resumes it");
        assert_eq!(how_to_resume(""), "`vivarium sessions resume SESSION` resumes it");
    }
}
