//! Where CPython 3.14 has what its signal handler writes, in the guest's memory. It describes itself:
//! `_PyRuntime` begins with `_Py_DebugOffsets` (pycore_debug_offsets.h), which is there for debuggers.

const COOKIE: &[u8] = b"xdebugpy";
/// `Py_NSIG` of WASI, and `PyThreadState.eval_breaker` after `prev`, `next` and `interp`.
const SIGNALS: u32 = 65;
const EVAL_BREAKER: u32 = 12;

/// Indices of 64-bit fields of `_Py_DebugOffsets`.
const VERSION: u32 = 1;
const RUNTIME_SIZE: u32 = 3;
const INTERPRETERS_HEAD: u32 = 5;
const THREADS_HEAD: u32 = 9;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) runtime: u32,
    /// As often as there are signals: whether it has come, and its handler.
    pub(super) handlers: u32,
    /// Whether any has come; then two words: what stands for SIG_DFL and for SIG_IGN.
    pub(super) is_tripped: u32,
    pub(super) eval_breaker: u32,
}

/// `numbers` are where SIG_DFL and SIG_IGN are.
pub(super) fn find(memory: &[u8], hint: u32, numbers: [u32; 2]) -> Option<Places> {
    let is_there = |at: u32| memory.get(at as usize..).is_some_and(|rest| rest.starts_with(COOKIE));
    let scan = || {
        let mut aligned = memory.chunks_exact(8).enumerate();
        aligned.find_map(|(at, word)| (word == COOKIE).then(|| u32::try_from(at * 8).ok())?)
    };
    let runtime = if hint.is_multiple_of(8) && is_there(hint) { hint } else { scan()? };
    let word = |at: u32| {
        let bytes = memory.get(at as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let field = |index: u32| word(runtime.checked_add(index * 8)?);
    if field(VERSION)? >> 16 != 0x030E {
        return None;
    }
    let end = runtime.checked_add(field(RUNTIME_SIZE)?)?;
    // `wakeup.fd` and `warn_on_full_buffer` as they are without a wakeup descriptor, `is_tripped`, and the two.
    let pattern = [u32::MAX, 1, 0, numbers[0], numbers[1]];
    let wakeup = (runtime..end.min(u32::try_from(memory.len()).ok()?)).step_by(4).find(|at| {
        pattern.iter().zip(0u32..).all(|(value, index)| word(at + index * 4) == Some(*value))
    })?;
    let interpreter = word(runtime.checked_add(field(INTERPRETERS_HEAD)?)?)?;
    let thread = word(interpreter.checked_add(field(THREADS_HEAD)?)?)?;
    let eval_breaker = thread.checked_add(EVAL_BREAKER)?;
    word(eval_breaker)?;
    if thread == 0 {
        return None;
    }
    let handlers = wakeup.checked_sub(SIGNALS * 8)?;
    let aligned = [handlers, eval_breaker].iter().all(|at| at.is_multiple_of(4));
    aligned.then_some(Places { runtime, handlers, is_tripped: wakeup + 8, eval_breaker })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory with a runtime at 4096 whose thread is at `thread`.
    fn memory(thread: u32) -> Vec<u8> {
        let mut memory = vec![0u8; 16384];
        let mut put = |at: u32, value: u32| {
            memory[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        };
        for (index, value) in [
            (VERSION, 0x030E_00F0),
            (RUNTIME_SIZE, 8000),
            (INTERPRETERS_HEAD, 2000),
            (THREADS_HEAD, 64),
        ] {
            put(4096 + index * 8, value);
        }
        put(4096 + 2000, 12000);
        put(12000 + 64, thread);
        for (index, value) in [u32::MAX, 1, 0, 100, 132].into_iter().enumerate() {
            put(4096 + 3000 + u32::try_from(index).unwrap() * 4, value);
        }
        memory[4096..][..8].copy_from_slice(COOKIE);
        memory
    }

    #[test]
    fn the_runtime_is_found_with_and_without_a_hint() {
        let memory = memory(13000);
        let expected =
            Places { runtime: 4096, handlers: 7096 - 520, is_tripped: 7104, eval_breaker: 13012 };
        for hint in [4096, 0, 8, u32::MAX] {
            assert_eq!(find(&memory, hint, [100, 132]).as_ref(), Some(&expected), "{hint}");
        }
    }

    #[test]
    fn places_outside_of_the_memory_are_refused() {
        for thread in [16384, u32::MAX, u32::MAX - 12] {
            assert_eq!(find(&memory(thread), 0, [100, 132]), None, "{thread}");
        }
        assert_eq!(find(&memory(13000), 0, [100, 133]), None, "other numbers");
        assert_eq!(find(&[0; 4096], 0, [100, 132]), None, "no runtime");
    }
}
