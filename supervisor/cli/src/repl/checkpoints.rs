//! `:checkpoint`, `:checkpoints` and `:rollback`.

use super::read_eval::ReadEvalLoop;
use crate::checkpoints;
use crate::exit::Failure;

impl ReadEvalLoop<'_> {
    pub(super) async fn make_checkpoint(&mut self, name: Option<&str>) -> Result<(), Failure> {
        let made = self.target.make_checkpoint(&self.session, name).await?;
        self.screen.write(&format!("{}\n", made.name))
    }

    pub(super) async fn list_checkpoints(&mut self) -> Result<(), Failure> {
        let found = self.target.checkpoints(&self.session).await?;
        self.screen.write(&checkpoints::table(found))
    }

    pub(super) async fn roll_back(&mut self, name: &str) -> Result<(), Failure> {
        self.target.roll_back(&self.session, name).await?;
        self.screen.expect_loss();
        self.screen.note(&format!(
            "rolled back to {name}; not undone: homes, volumes, and what went through the network"
        ))
    }
}
