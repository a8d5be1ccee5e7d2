//! One instance of the guest: what it sees, what bounds it, and how it ends.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::mem::ManuallyDrop;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;
use std::time::SystemTime;

use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, ResourceLimiter, Result, Store, bail, error::Context as _};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::{imports, session, signals, streams};

/// What a guest may use.
#[derive(Debug, Default)]
pub struct Terms {
    /// Bounds linear memory, in bytes.
    pub max_memory_bytes: Option<usize>,
    /// What it sees, each directory at its own path; the first is the working directory.
    pub directories: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
}

impl Terms {
    /// As the program's arguments after `kernel` and the process's environment say.
    ///
    /// # Errors
    /// If the arguments are others.
    pub fn of_arguments(arguments: &[&str]) -> Result<Self> {
        let (max_memory_bytes, directories) = match arguments {
            ["--max-memory-bytes", bytes, rest @ ..] => (Some(bytes.parse()?), rest),
            rest => (None, rest),
        };
        if directories.is_empty() {
            bail!("kernel: it gets no directory");
        }
        Ok(Self {
            max_memory_bytes,
            directories: directories.iter().map(ToString::to_string).collect(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
        })
    }

    fn wasi(&self) -> Result<WasiCtx> {
        let mut builder = WasiCtxBuilder::new();
        builder.inherit_stdout().inherit_stderr().allow_blocking_current_thread(true);
        builder.allow_tcp(false).allow_udp(false);
        for directory in &self.directories {
            builder.preopened_dir(Path::new(directory), directory, FsPerms::ReadWrite)?;
        }
        Ok(builder.build())
    }
}

/// How a guest gets its session.
#[derive(Debug)]
pub enum Birth {
    /// The process is of this one.
    Executed(Terms),
    /// The process is a template; each of its forks gets one.
    Forked,
}

/// What the host keeps for a guest.
pub struct Host {
    wasi: WasiCtx,
    table: ResourceTable,
    max_memory_bytes: usize,
    /// What `settings` answers. `None` as long as there is no session.
    settings: Option<String>,
    /// What has been read from the control socket, for the guest's next call, while handlers of signals run first.
    pub unread: Vec<u8>,
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl ResourceLimiter for Host {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(desired <= self.max_memory_bytes)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(desired <= 1 << 20)
    }
}

impl Host {
    fn new(birth: &Birth) -> Result<Self> {
        let mut host = Self {
            // Without a session a guest has no directory to look for.
            wasi: Terms::default().wasi()?,
            table: ResourceTable::new(),
            max_memory_bytes: usize::MAX,
            settings: None,
            unread: Vec::new(),
        };
        if let Birth::Executed(terms) = birth {
            host.begin(terms)?;
        }
        Ok(host)
    }

    /// Makes all that is the session's.
    fn begin(&mut self, terms: &Terms) -> Result<String> {
        self.wasi = terms.wasi()?;
        // The rest is the engine's, under the same limit of the cgroup.
        self.max_memory_bytes =
            terms.max_memory_bytes.map_or(usize::MAX, |bytes| bytes - bytes / 8);
        let settings = serde_json::json!({
            "environment": terms.environment,
            "workdir": terms.directories.first(),
        });
        let settings = settings.to_string();
        self.settings = Some(settings.clone());
        Ok(settings)
    }

    /// The environment and the workdir. In a template the first call returns in each fork, and each of these has its
    /// session then.
    pub(crate) fn settings(&mut self) -> Result<String> {
        let settings = match self.settings.clone() {
            Some(settings) => settings,
            None => self.begin(&session::fork_kernels()?)?,
        };
        signals::listen()?;
        Ok(settings)
    }
}

/// Calls an exported function of a new instance.
async fn call<T>(engine: &Engine, component: &Component, birth: Birth, name: &str) -> Result<T>
where
    (T,): wasmtime::component::ComponentNamedList + wasmtime::component::Lift,
    T: Send + Sync + 'static,
{
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    imports::add_to_linker(&mut linker)?;
    streams::add_to_linker(&mut linker)?;
    // Never dropped: see `main`.
    let mut store = ManuallyDrop::new(Store::new(engine, Host::new(&birth)?));
    store.limiter(|host| host);
    let instance = linker.instantiate_async(&mut *store, component).await?;
    let function = instance.get_typed_func::<(), (T,)>(&mut *store, name)?;
    let (result,) = function.call_async(&mut *store, ()).await?;
    Ok(result)
}

/// Runs it on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(future)
}

/// Serves executions until the control socket is closed. Returns the exit status of the guest: in a template, in
/// each of its forks.
///
/// # Errors
/// If it cannot start, or ended by a trap.
pub fn serve(engine: &Engine, component: &Component, birth: Birth) -> Result<i32> {
    match block_on(call::<u32>(engine, component, birth, "run")) {
        Ok(_) => Ok(0),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => Ok(exit.0),
            None => Err(error),
        },
    }
}

/// What holds in a guest that sees one directory, as JSON. That is made in the directory for temporary files, with
/// what the guest is not to reach beside it.
///
/// # Errors
/// If the directory cannot be made, or the guest cannot start.
pub fn inspect(engine: &Engine, component: &Component) -> Result<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
    let name = format!("vivarium-wasm-{}-{now}", std::process::id());
    let own = std::env::temp_dir().canonicalize()?.join(name);
    let inside = own.join("inside");
    for directory in [&own, &inside] {
        // Others can write to the directory around it: what is there already is not taken.
        DirBuilder::new()
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("make {}", directory.display()))?;
    }
    let answer = in_directory(engine, component, &inside);
    fs::remove_dir_all(&own)?;
    answer
}

fn in_directory(engine: &Engine, component: &Component, inside: &Path) -> Result<String> {
    fs::write(inside.join("file"), "inside")?;
    fs::write(inside.with_file_name("outside"), "outside")?;
    symlink("../outside", inside.join("link"))?;
    let Some(directory) = inside.to_str() else { bail!("{} is not UTF-8", inside.display()) };
    let terms = Terms {
        max_memory_bytes: Some(256 << 20),
        directories: vec![directory.to_owned()],
        ..Terms::default()
    };
    block_on(call(engine, component, Birth::Executed(terms), "inspect"))
}
