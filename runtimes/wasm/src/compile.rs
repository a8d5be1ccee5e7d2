//! Compiles a component for this CPU: `vivarium-wasm-compile SOURCE TARGET`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wasmtime::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target] = arguments.as_slice() else {
        bail!("usage: vivarium-wasm-compile SOURCE TARGET");
    };
    let code = vivarium_wasm::engine()?.precompile_component(&fs::read(source)?)?;
    // Replaced as a whole: sessions have the old one mapped.
    let part = format!("{target}.{}", std::process::id());
    fs::write(&part, code)?;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o644))?;
    fs::rename(&part, Path::new(target))?;
    Ok(())
}
