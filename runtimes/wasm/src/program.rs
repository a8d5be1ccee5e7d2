//! A program of a tenant's: a WebAssembly file that comes at run time, compiled and run in this process, which the
//! agent has confined as it does a kernel.
//!
//! It must never load compiled code: that is made here, of what the compiler has checked.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;
use tokio::io::AsyncRead;
use wasmtime::component::{self, Component, ResourceTable};
use wasmtime::{Config, Engine, Linker, Module, ResourceLimiter, Result, Store, bail};
use wasmtime_wasi::cli::{IsTerminal, StdinStream};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::bindings::Command;
use wasmtime_wasi::p2::{self, InputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::guest::block_on;
use crate::streams;

/// As shells have it: POSIX, Shell Command Language, 2.8.2.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// As of a process that abort(3) ended.
const TRAPPED: u8 = 134;

/// Of a source; what the compiler makes of it takes several times as much.
const MAX_SOURCE_BYTES: u64 = 64 << 20;

/// The version that follows the magic number: of modules, and of components.
const MODULE: &[u8] = &[1, 0, 0, 0];
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];

/// What a program may use.
#[derive(Debug, Default)]
pub struct Terms {
    /// Bounds each linear memory, in bytes.
    pub max_memory_bytes: Option<usize>,
    /// What it sees beside the working directory, each directory at its own path.
    pub directories: Vec<String>,
    /// The file, and what it is called with.
    pub arguments: Vec<String>,
}

/// Why a program has not come to its end.
#[derive(Debug)]
pub struct Refused {
    /// The exit status that tells of it.
    pub status: u8,
    /// One sentence.
    pub why: String,
}

enum Source {
    Module(Vec<u8>),
    Component(Vec<u8>),
}

/// Runs it to its end. Returns its exit status.
///
/// # Errors
/// If there is no such program, it cannot be compiled, or ended by a trap.
pub fn run(terms: &Terms) -> Result<u8, Refused> {
    let refuse = |status| move |why: String| Refused { status, why };
    let Some(path) = terms.arguments.first() else {
        return Err(refuse(NOT_EXECUTABLE)("no program is named".into()));
    };
    let source = read(Path::new(path)).map_err(|(status, why)| Refused { status, why })?;
    let not_executable = |error: wasmtime::Error| refuse(NOT_EXECUTABLE)(sentence(&error));
    let engine = engine().map_err(not_executable)?;
    let ended = match source {
        Source::Module(bytes) => {
            let module = Module::from_binary(&engine, &bytes).map_err(not_executable)?;
            if module.get_export("_start").is_none() {
                let why = "it is no program: the module exports no function _start";
                return Err(refuse(NOT_EXECUTABLE)(why.into()));
            }
            block_on(run_module(&engine, &module, terms))
        }
        Source::Component(bytes) => {
            let component = Component::from_binary(&engine, &bytes).map_err(not_executable)?;
            block_on(run_component(&engine, &component, terms))
        }
    };
    match ended {
        Ok(status) => Ok(status),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            // As exit(3) does.
            Some(exit) => Ok(exit.0.to_le_bytes()[0]),
            None if error.is::<wasmtime::Trap>() => Err(refuse(TRAPPED)(format!("{error:#}"))),
            None => Err(not_executable(error)),
        },
    }
}

/// One line of an error that may have several.
fn sentence(error: &wasmtime::Error) -> String {
    let all = format!("{error:#}");
    all.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> Result<Source, (u8, String)> {
    let not_executable = |why: String| (NOT_EXECUTABLE, why);
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        (if missing { NOT_FOUND } else { NOT_EXECUTABLE }, error.to_string())
    })?;
    let data = file.metadata().map_err(|error| not_executable(error.to_string()))?;
    if !data.is_file() {
        return Err(not_executable("it is no regular file".into()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| not_executable(error.to_string()))?;
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(not_executable(format!("it has more than {} MiB", MAX_SOURCE_BYTES >> 20)));
    }
    match (bytes.get(..4), bytes.get(4..8)) {
        (Some(b"\0asm"), Some(MODULE)) => Ok(Source::Module(bytes)),
        (Some(b"\0asm"), Some(COMPONENT)) => Ok(Source::Component(bytes)),
        _ => Err(not_executable("it is no WebAssembly module or component".into())),
    }
}

/// With a compiler for this CPU.
fn engine() -> Result<Engine> {
    let mut config = Config::new();
    config.max_wasm_stack(crate::STACK_BYTES);
    config.async_stack_size(crate::STACK_BYTES + (1 << 20));
    Engine::new(&config)
}

/// Whether the working directory is in what the program may see: the agent gets there through links that tenants make.
fn is_seen(terms: &Terms) -> Result<bool> {
    let own = std::env::current_dir()?;
    let beneath = |directory: &String| {
        Path::new(directory).canonicalize().is_ok_and(|directory| own.starts_with(directory))
    };
    Ok(terms.directories.iter().any(beneath))
}

fn context(terms: &Terms) -> Result<WasiCtxBuilder> {
    if !is_seen(terms)? {
        bail!("the working directory is not in {}", terms.directories.join(" or "));
    }
    let mut builder = WasiCtxBuilder::new();
    builder.inherit_stdout().inherit_stderr().stdin(Input).allow_blocking_current_thread(true);
    builder.allow_tcp(false).allow_udp(false).args(&terms.arguments);
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            builder.env(name, value);
        }
    }
    // By relative paths, and by absolute ones.
    builder.preopened_dir(Path::new("."), ".", FsPerms::ReadWrite)?;
    for directory in &terms.directories {
        builder.preopened_dir(Path::new(directory), directory, FsPerms::ReadWrite)?;
    }
    Ok(builder)
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    max_memory_bytes: usize,
}

impl Limits {
    fn of(terms: &Terms) -> Self {
        // The rest is the engine's and the compiler's, under the same limit of the cgroup.
        Self { max_memory_bytes: terms.max_memory_bytes.map_or(usize::MAX, |all| all - all / 8) }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(desired <= self.max_memory_bytes)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(desired <= 1 << 20)
    }
}

struct OfModule {
    wasi: WasiP1Ctx,
    limits: Limits,
}

async fn run_module(engine: &Engine, module: &Module, terms: &Terms) -> Result<u8> {
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |host: &mut OfModule| &mut host.wasi)?;
    let host = OfModule { wasi: context(terms)?.build_p1(), limits: Limits::of(terms) };
    let mut store = Store::new(engine, host);
    store.limiter(|host| &mut host.limits);
    let instance = linker.instantiate_async(&mut store, module).await?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    start.call_async(&mut store, ()).await?;
    Ok(0)
}

struct OfComponent {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: Limits,
}

impl WasiView for OfComponent {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

async fn run_component(engine: &Engine, component: &Component, terms: &Terms) -> Result<u8> {
    let mut linker = component::Linker::new(engine);
    p2::add_to_linker_async(&mut linker)?;
    streams::add_to_linker(&mut linker)?;
    let host = OfComponent {
        wasi: context(terms)?.build(),
        table: ResourceTable::new(),
        limits: Limits::of(terms),
    };
    let mut store = Store::new(engine, host);
    store.limiter(|host| &mut host.limits);
    let command = Command::instantiate_async(&mut store, component, &linker).await?;
    let done = command.wasi_cli_run().call_run(&mut store).await?;
    Ok(u8::from(done.is_err()))
}

/// Standard input, read on this thread: the filter lets it have no other.
struct Input;

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&io::stdin())
    }
}

impl StdinStream for Input {
    /// Of WASI preview 3, which nothing here is linked with.
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(Self)
    }
}

impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        const MAX_BYTES: usize = 1 << 16;
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut data = vec![0; size.min(MAX_BYTES)];
        match rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut data)) {
            Ok(0) => Err(StreamError::Closed),
            Ok(count) => {
                data.truncate(count);
                Ok(data.into())
            }
            Err(error) => Err(StreamError::LastOperationFailed(wasmtime::Error::from(error))),
        }
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {}
}
