//! Policies of the language for code that is run.

use clap::Args;
use vivarium_api_types::{AuditEventsSpec, Echo, ExecuteRequest, ImportsSpec, Preset};

use super::named;

const PRESETS: [Preset; 4] = [Preset::Compute, Preset::Files, Preset::Network, Preset::Full];
const ECHOES: [Echo; 3] = [Echo::Last, Echo::All, Echo::None];

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Policies of the language, for code")]
pub(crate) struct PolicyOptions {
    /// A bundle of the others by one name
    #[arg(long, value_name = "NAME", value_parser = named(PRESETS), conflicts_with_all = ["shell", "argv"])]
    policy: Option<Preset>,
    /// The most work, in ticks: backward jumps, function starts and generator resumes; Python 3.12
    #[arg(long, value_name = "TICKS", conflicts_with_all = ["shell", "argv"])]
    max_work: Option<u64>,
    /// The modules that it may import itself
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', conflicts_with_all = ["shell", "argv"])]
    allow_imports: Option<Vec<String>>,
    /// Modules that it may not import itself
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', conflicts_with_all = ["shell", "argv", "allow_imports"])]
    deny_imports: Option<Vec<String>>,
    /// Audit events of Python that raise an error; all are counted in the outcome
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', conflicts_with_all = ["shell", "argv"])]
    deny_events: Option<Vec<String>>,
    /// Whose values are shown: of the last expression, of all, or none
    #[arg(long, value_name = "WHICH", value_parser = named(ECHOES), conflicts_with_all = ["shell", "argv"])]
    echo: Option<Echo>,
}

impl PolicyOptions {
    /// Has them hold for this code.
    pub(crate) fn hold(&self, request: &mut ExecuteRequest) {
        request.policy = self.policy;
        request.max_work = self.max_work;
        request.imports =
            (self.allow_imports.is_some() || self.deny_imports.is_some()).then(|| ImportsSpec {
                allow: self.allow_imports.clone(),
                deny: self.deny_imports.clone(),
            });
        request.audit_events = self.deny_events.clone().map(|deny| AuditEventsSpec { deny });
        request.echo = self.echo;
    }
}
