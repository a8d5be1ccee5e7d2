//! What has the compiler in it: `vivarium-wasm-compile component SOURCE TARGET` compiles a component for this CPU,
//! `vivarium-wasm-compile run` is a command of a tenant's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use vivarium_wasm::program::{self, Terms};
use wasmtime::{Result, bail};

const USAGE: &str = "usage: vivarium-wasm-compile component SOURCE TARGET | \
                     run [--max-memory-bytes N] DIRECTORY… -- FILE [ARGUMENT…]";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    let done = match arguments.split_first() {
        Some((word, rest)) if word == "component" => component(rest).map(|()| 0),
        Some((word, rest)) if word == "run" => run(rest),
        _ => Err(wasmtime::Error::msg(USAGE)),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("vivarium-wasm-compile: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn component(arguments: &[String]) -> Result<()> {
    let [source, target] = arguments else { bail!("{USAGE}") };
    let code = vivarium_wasm::engine()?.precompile_component(&fs::read(source)?)?;
    // Replaced as a whole: sessions have the old one mapped.
    let part = format!("{target}.{}", std::process::id());
    fs::write(&part, code)?;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o644))?;
    fs::rename(&part, Path::new(target))?;
    Ok(())
}

fn run(arguments: &[String]) -> Result<u8> {
    let Some(end) = arguments.iter().position(|argument| argument == "--") else {
        bail!("{USAGE}");
    };
    let (before, command) = arguments.split_at(end);
    let (max_memory_bytes, directories) = match before {
        [option, bytes, rest @ ..] if option == "--max-memory-bytes" => {
            (Some(bytes.parse()?), rest)
        }
        rest => (None, rest),
    };
    let terms = Terms {
        max_memory_bytes,
        directories: directories.to_vec(),
        arguments: command.get(1..).unwrap_or_default().to_vec(),
    };
    vivarium_wasm::confine_program()?;
    program::run(&terms).or_else(|refused| {
        let name = terms.arguments.first().map(String::as_str).unwrap_or_default();
        eprintln!("{name}: {}", refused.why);
        Ok(refused.status)
    })
}
