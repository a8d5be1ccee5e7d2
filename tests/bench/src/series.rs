//! The names of series that both a scenario and the plot use.

pub(super) const BARE: &str = "bare python3 -c pass";
pub(super) const COLD: &str = "cold create to first result";
pub(super) const COLD_RUN: &str = "cold one-shot run of print(1)";
pub(super) const TEMPLATE: &str = "template create to first result";
pub(super) const TEMPLATE_RUN: &str = "template one-shot run of print(1)";
pub(super) const TEMPLATE_SCIENTIFIC: &str = "template create, the three imported";
pub(super) const POOLED: &str = "pooled create to first result";
pub(super) const POOLED_RUN: &str = "pooled one-shot run of print(1)";
pub(super) const POOLED_SCIENTIFIC: &str = "pooled create, the three imported";
pub(super) const RESET: &str = "reset";
pub(super) const RESET_SCIENTIFIC: &str = "reset, the three imported";
