//! One execution of `run` or `exec`, from its request to the exit code.

use vivarium_api_types::Outcome;

use super::artifacts::Folder;
use super::exit::{Exit, Failure};
use super::inputs::CodeOptions;
use super::interrupt::{self, OnStubborn};
use super::outcome::{Verdict, lost_before};
use super::print;
use super::target::Target;
use super::view::View;
use super::work::Work;

/// What is to be run, and where.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) target: &'a Target,
    pub(super) session: &'a str,
    pub(super) work: Work,
    /// Whether the session is made if there is none.
    pub(super) create: bool,
    /// What became of what had to run first: it is a part of the same request.
    pub(super) prepared: Option<Outcome>,
}

impl Task<'_> {
    /// Runs it and shows what comes of it, as it comes or, as JSON, as a whole.
    pub(super) async fn perform(
        self,
        options: &CodeOptions,
        folder: Option<Folder>,
        on_stubborn: OnStubborn,
    ) -> Result<Exit, Failure> {
        let Self { target, session, work, create, prepared } = self;
        let mut view = View::new(folder, options.value, options.quiet);
        if !options.json {
            let before = prepared.as_ref().and_then(|prepared| prepared.kernel.as_ref());
            if let Some(lost) = lost_before(before, None) {
                print::note(&lost);
            }
            let execution = async { view.follow(target.start(session, work, create).await?).await };
            return interrupt::watch(target, session, on_stubborn, execution).await;
        }
        let execution = target.execute(session, work, create);
        let mut outcome = interrupt::watch(target, session, on_stubborn, execution).await?;
        if let Some(prepared) = prepared {
            outcome.session_created |= prepared.session_created;
            if let (Some(kernel), Some(before)) = (&mut outcome.kernel, prepared.kernel) {
                kernel.fresh |= before.fresh && before.generation == kernel.generation;
            }
        }
        print::json(&outcome)?;
        let exit = Verdict::from(&outcome).exit();
        view.keep_all(&outcome);
        Ok(exit)
    }
}
