//! `vivarium-agent`: the launcher, the agent, and the interpreter's inspection. Not for users:
//! the supervisor runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    vivarium_agent::main()
}
