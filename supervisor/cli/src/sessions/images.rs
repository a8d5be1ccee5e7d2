//! `vivarium sessions suspend` and `resume`.

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::{ImageInfo, SessionInfo};
use vivarium_client::{Client, ClientError};

use crate::exit::{Exit, Failure};
use crate::options::DaemonOptions;
use crate::{human, print};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium sessions suspend demo
  vivarium sessions resume demo")]
pub(crate) struct SessionsArgs {
    /// The sessions' ids
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    #[command(flatten)]
    pub(super) daemon: DaemonOptions,
}

/// Does this with each of the sessions.
pub(super) async fn each(
    client: &mut Client,
    args: &SessionsArgs,
    act: impl AsyncFn(&mut Client, &str) -> Result<SessionInfo, ClientError>,
) -> Result<Exit, Failure> {
    let mut all = Progress::new(args);
    for id in &args.sessions {
        all.add(id, act(client, id).await)?;
    }
    all.end()
}

/// One failure does not keep the other sessions from their turn.
struct Progress<'a> {
    args: &'a SessionsArgs,
    sessions: Vec<SessionInfo>,
    exit: Exit,
}

impl<'a> Progress<'a> {
    const fn new(args: &'a SessionsArgs) -> Self {
        Self { args, sessions: Vec::new(), exit: Exit::Ok }
    }

    fn add(&mut self, id: &str, reply: Result<SessionInfo, ClientError>) -> Result<(), Failure> {
        match reply {
            Ok(session) if self.args.daemon.json => self.sessions.push(session),
            Ok(session) => {
                let size =
                    session.image.map(|image| format!(", {}", human::size(image.size_bytes)));
                let (state, size) = (human::word(&session.state), size.unwrap_or_default());
                print::out(format!("{id}: {state}{size}\n").as_bytes())?;
            }
            Err(error) => {
                let failure = Failure::from(error);
                print::note(&format!("{id}: {}", failure.message()));
                self.exit = failure.exit();
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Exit, Failure> {
        if self.args.daemon.json {
            print::json(&self.sessions)?;
        }
        Ok(self.exit)
    }
}

/// An image in a list: its size, and how long its session has been suspended.
pub(super) fn summary(image: &ImageInfo, now: Timestamp) -> String {
    format!("{}, {}", human::size(image.size_bytes), human::when(image.suspended_at, now))
}

/// What `sessions show` has of an image.
pub(super) fn rows(image: &ImageInfo, now: Timestamp) -> [Vec<String>; 2] {
    [
        vec!["image".to_owned(), summary(image, now)],
        vec!["auto resume".to_owned(), human::yes_or_no(image.auto_resume)],
    ]
}

/// When a session is deleted unless it is used before; none if never.
pub(super) fn expires(session: &SessionInfo) -> Option<Timestamp> {
    session.image.map_or(Some(session.expires_at), |image| image.expires_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_shows_its_size_and_its_age() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        let image = ImageInfo {
            size_bytes: 1536,
            suspended_at: "2026-07-01T11:56:01Z".parse().unwrap(),
            expires_at: None,
            auto_resume: false,
        };
        assert_eq!(summary(&image, now), "1.5 KiB, 3 min ago");
        assert_eq!(rows(&image, now), [["image", "1.5 KiB, 3 min ago"], ["auto resume", "no"]]);
    }
}
