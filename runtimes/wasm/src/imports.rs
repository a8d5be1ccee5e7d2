//! What the guest imports beside WASI: see wit/kernel.wit.

use std::sync::atomic::Ordering::Relaxed;

use wasmtime::component::{Linker, WasmList};
use wasmtime::{AsContext, Result};

use crate::guest::Host;
use crate::signals::{self, CONTROL};
use crate::streams::LAST_ERROR;

/// A frame comes in pieces of at most so many bytes.
const READ_MAX_BYTES: u32 = 1 << 20;

pub fn add_to_linker(linker: &mut Linker<Host>) -> Result<()> {
    let mut root = linker.root();
    // In a template it returns in each fork.
    root.func_wrap("settings", |mut store, (): ()| Ok((store.data_mut().settings()?,)))?;
    root.func_wrap("control-read", |mut store, (size,): (u32,)| {
        let unread = &mut store.data_mut().unread;
        let (count, error) = signals::uninterrupted(|| {
            if unread.is_empty() {
                let mut data = vec![0; size.min(READ_MAX_BYTES) as usize];
                let count = signals::read(CONTROL, &mut data)?;
                data.truncate(count);
                *unread = data;
            }
            signals::handled_first()?;
            Ok(unread.len().min(size as usize))
        });
        let data = unread.drain(..count as usize).collect::<Vec<u8>>();
        Ok(((data, error),))
    })?;
    root.func_wrap("control-write", |_, (data,): (Vec<u8>,)| {
        Ok((signals::uninterrupted(|| signals::write(CONTROL, &data)),))
    })?;
    root.func_wrap("sleep", |_, (nanoseconds,): (u64,)| {
        signals::sleep(nanoseconds);
        Ok(())
    })?;
    root.func_wrap(
        "signals-at",
        |store, (probe, mailbox, hint, zero, one): (WasmList<u8>, u32, u32, u32, u32)| {
            let probe = probe.as_le_slice(store.as_context());
            let found = signals::attach(probe, mailbox, hint, [zero, one]);
            Ok((found.map_or_else(|why| (0, why), |at| (at, String::new())),))
        },
    )?;
    root.func_wrap("set-timer", |_, (first, interval): (u64, u64)| {
        Ok((signals::set_timer(first, interval),))
    })?;
    root.func_wrap("stream-error", |_, (): ()| Ok((LAST_ERROR.load(Relaxed),)))?;
    root.func_wrap("end", |_, (status, signal): (u32, u32)| -> Result<()> {
        signals::end_by(signal);
        Err(wasmtime_wasi::I32Exit(i32::try_from(status & 0xFF).unwrap_or(0)).into())
    })?;
    root.func_wrap("get-timer", |_, (): ()| Ok((signals::get_timer(),)))?;
    Ok(())
}
