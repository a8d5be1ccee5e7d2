//! The program `vivarium`: everything is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vivarium::main()
}
