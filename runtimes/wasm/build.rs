//! Tells the program which version of the engine Cargo.lock has.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"wasmtime\"\n"))
        .and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
    println!("cargo::rustc-env=WASMTIME_VERSION={}", version.unwrap_or("unknown"));
}
