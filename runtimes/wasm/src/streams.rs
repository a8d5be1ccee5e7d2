//! Reads and writes files on this thread. wasmtime-wasi does both on another where the guest does not ask to
//! wait, and the kernel of a session may have none: here both wait, as their blocking variants do. And what
//! can be read is always ready, as files are to poll(2); it would be read ahead on another thread.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{future, io, result};

use wasmtime::Result;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::bindings::io::streams::{Host as _, StreamError};
use wasmtime_wasi::p2::{self, DynInputStream, DynOutputStream, StreamResult};

/// As wasmtime-wasi names it.
const STREAMS: &str = "wasi:io/streams@0.2.12";

/// Linux's number of the last error here, which the guest's C library calls EIO, whatever it is.
pub static LAST_ERROR: AtomicU32 = AtomicU32::new(0);

pub fn add_to_linker<T: WasiView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    linker.allow_shadowing(true);
    let mut streams = linker.instance(STREAMS)?;
    streams.func_wrap_async(
        "[method]output-stream.write",
        |mut store, (stream, data): (Resource<DynOutputStream>, Vec<u8>)| {
            Box::new(async move {
                let host = store.data_mut();
                let stream = host.ctx().table.get_mut(&stream)?;
                let written = stream.blocking_write_and_flush(data.into()).await;
                answer(host, written)
            })
        },
    )?;
    // After an error a stream counts as closed, for which the guest's C library says EPIPE.
    streams.func_wrap(
        "[method]output-stream.check-write",
        |mut store, (stream,): (Resource<DynOutputStream>,)| {
            let host = store.data_mut();
            let ready = match host.ctx().table.get_mut(&stream)?.check_write() {
                Err(p2::StreamError::Closed) => Err(again()),
                ready => ready,
            };
            answer(host, ready.map(|size| size as u64))
        },
    )?;
    streams.func_wrap_async(
        "[method]input-stream.read",
        |mut store, (stream, size): (Resource<DynInputStream>, u64)| {
            Box::new(async move {
                let host = store.data_mut();
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let stream = host.ctx().table.get_mut(&stream)?;
                let data = stream.blocking_read(size).await;
                answer(host, data.map(|data| data.to_vec()))
            })
        },
    )?;
    streams.func_wrap(
        "[method]input-stream.subscribe",
        |mut store, (stream,): (Resource<DynInputStream>,)| {
            let table = store.data_mut().ctx().table;
            let ready = table.push_child(Ready, &stream)?;
            Ok((p2::subscribe(table, ready)?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

struct Ready;

impl p2::Pollable for Ready {
    fn ready<'a: 'b, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        Self: 'b,
    {
        Box::pin(future::ready(()))
    }
}

fn answer<T>(
    host: &mut impl WasiView,
    done: StreamResult<T>,
) -> Result<(result::Result<T, StreamError>,)> {
    Ok((match done {
        Ok(value) => Ok(value),
        Err(error) => {
            note(&error);
            Err(host.ctx().table.convert_stream_error(error)?)
        }
    },))
}

/// The last error once more.
fn again() -> p2::StreamError {
    match i32::try_from(LAST_ERROR.load(Relaxed)) {
        Ok(number) if number != 0 => {
            p2::StreamError::LastOperationFailed(io::Error::from_raw_os_error(number).into())
        }
        _ => p2::StreamError::Closed,
    }
}

fn note(error: &p2::StreamError) {
    if let p2::StreamError::LastOperationFailed(error) = error
        && let Some(number) = error.downcast_ref().and_then(io::Error::raw_os_error)
    {
        LAST_ERROR.store(number.unsigned_abs(), Relaxed);
    }
}
