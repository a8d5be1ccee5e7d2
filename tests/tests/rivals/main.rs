//! Two tenants of one daemon, one of which attacks the other through every interface that both may use.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod crowd;
mod ids;
mod reuse;
mod timing;

use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup};

/// A daemon with two tenants, and their tokens: the victim's, and the rival's.
fn two_tenants() -> (Daemon, Token, Token) {
    let (victim, rival) = (Token::new(), Token::new());
    let tenants = two(&entry("victim", &victim, ""), &entry("rival", &rival, ""));
    let homes = r#"allowed = ["session", "tenant", "volumes"]"#;
    let daemon = Setup::default().config("[tenant]", &tenants).config("homes", homes).start();
    (daemon, victim, rival)
}
