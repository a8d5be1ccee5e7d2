//! `vivarium-wasm kernel` is the kernel of a session; `vivarium-wasm template` forks such kernels;
//! `vivarium-wasm inspect` says what they would be.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vivarium_wasm::guest::{self, Birth, Terms};
use vivarium_wasm::{component, confine, engine, session};
use wasmtime::Result;

const USAGE: &str = "usage: vivarium-wasm kernel [--max-memory-bytes N] DIRECTORY… | template VERSION | \
                     inspect --cache DIR";

/// EX_SOFTWARE of sysexits.h.
const TRAPPED: u8 = 70;

const ENGINE_VERSION: &str = env!("WASMTIME_VERSION");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["kernel", rest @ ..] => executed(rest),
        ["template", version] => {
            let done = session::check(version).and_then(|()| kernel(Birth::Forked));
            if let Err(error) = &done {
                session::refuse(format!("{error:#}"));
            }
            done
        }
        ["inspect", "--cache", cache] => inspect(Path::new(cache)),
        _ => Err(wasmtime::Error::msg(USAGE)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("vivarium-wasm: {error:#}");
            ExitCode::from(TRAPPED)
        }
    }
}

fn executed(arguments: &[&str]) -> Result<u8> {
    let terms = Terms::of_arguments(arguments)?;
    confine()?;
    kernel(Birth::Executed(terms))
}

fn kernel(birth: Birth) -> Result<u8> {
    // Never dropped: a kernel that was forked has their descriptors closed already, and every process that is one
    // ends next.
    let engine = ManuallyDrop::new(engine()?);
    // Opened once more, by its own descriptor: std has no safe way to take over one that was inherited.
    let component = component::passed(&engine, &File::open("/proc/self/fd/4")?)?;
    let component = ManuallyDrop::new(component);
    Ok(u8::try_from(guest::serve(&engine, &component, birth)?).unwrap_or(TRAPPED))
}

fn inspect(cache: &Path) -> Result<u8> {
    let engine = engine()?;
    let (path, component) = component::fitting(&engine, cache)?;
    let mut answer: serde_json::Value =
        serde_json::from_str(&guest::inspect(&engine, &component)?)?;
    answer["engine"] = "wasmtime".into();
    answer["engine_version"] = ENGINE_VERSION.into();
    answer["component"] = path.to_string_lossy().into();
    if let Some(path) = component::runner() {
        answer["runner"] = path.to_string_lossy().into();
    }
    let mut reads = Vec::new();
    if cfg!(not(target_feature = "crt-static")) {
        let libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
        reads.extend(libraries.into_iter().map(PathBuf::from).filter(|path| path.exists()));
    }
    answer["reads"] = reads.iter().map(|path| path.to_string_lossy()).collect();
    println!("{answer}");
    Ok(0)
}
