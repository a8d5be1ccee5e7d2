//! What `sys.monitoring` calls in a kernel at each tick of work: a function of the C API of Python, made without its headers.
//!
//! `agent/python/policy/work_native.py` makes a [`Python`] and Python callables of these functions, by ctypes. They take what they
//! use of Python from it, as pointers, so that this library needs no symbol of a `libpython`. Only Python 3.12 and later
//! has `sys.monitoring`.
//!
//! All run while their thread holds Python's lock, which alone orders them: without it (a free-threaded Python) counts
//! would be less than exact, and nothing else would be wrong.

use std::ffi::{c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// A `PyObject *`, which is never looked into here.
type Object = *mut c_void;

/// What the functions use of Python. All of it lives as long as the process.
#[repr(C)]
pub struct Python {
    /// `None`: immortal since 3.12 (PEP 683), so that it can be returned without a reference.
    none: Object,
    /// `sys.monitoring.DISABLE`: the same.
    disable: Object,
    /// The class of exceptions over the limit.
    exception: Object,
    /// Takes a code object: whether it is tenant code.
    classify: Object,
    /// `True`.
    is_true: Object,
    /// The index of our slot among those that Python keeps for each code object.
    slot: isize,
    /// Where an integer that is small and not negative has its value, 32 bits, within its object. Python's side has tried it.
    digit: isize,
    /// `PyObject_CallOneArg`.
    call: unsafe extern "C" fn(Object, Object) -> Object,
    /// `Py_DecRef`.
    release: unsafe extern "C" fn(Object),
    /// `PyErr_SetNone`.
    raise: unsafe extern "C" fn(Object),
    /// `PyUnstable_Code_GetExtra`.
    get_slot: unsafe extern "C" fn(Object, isize, *mut Object) -> c_int,
    /// `PyUnstable_Code_SetExtra`.
    set_slot: unsafe extern "C" fn(Object, isize, Object) -> c_int,
}

/// In the slot of a code object: it is tenant code, or it is not. Never followed.
const TENANTS: Object = ptr::without_provenance_mut(1);
const OTHERS: Object = ptr::without_provenance_mut(2);

static PYTHON: AtomicPtr<Python> = AtomicPtr::new(null_mut());
static LEFT: AtomicU64 = AtomicU64::new(0);
static EXCEEDED: AtomicBool = AtomicBool::new(false);

/// Begins to count: this many ticks are allowed.
// SAFETY, JUSTIFICATION: of `no_mangle`, as in the parent.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_work_begin(python: *mut Python, ticks: u64) {
    LEFT.store(ticks, Ordering::Relaxed);
    EXCEEDED.store(false, Ordering::Relaxed);
    PYTHON.store(python, Ordering::Release);
}

/// How many ticks are left.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_work_left() -> u64 {
    LEFT.load(Ordering::Relaxed)
}

/// Whether there was one more.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_work_exceeded() -> c_int {
    c_int::from(EXCEEDED.load(Ordering::Relaxed))
}

/// The callback for `PY_START` and `PY_RESUME`, as `METH_FASTCALL`: (code, offset).
///
/// # Safety
/// Python calls it, with those arguments, after [`vivarium_work_begin`].
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_work_start(
    _module: Object,
    arguments: *const Object,
    _count: isize,
) -> Object {
    // SAFETY: the caller's promise: the pointer is that of a `Python` which lives for ever, and the first argument is a code object.
    // JUSTIFICATION: the C API of Python has pointers only.
    unsafe { (*PYTHON.load(Ordering::Acquire)).tick(*arguments) }
}

/// The callback for `JUMP`, as `METH_FASTCALL`: (code, offset, destination). Forward jumps are no work, and are not asked about
/// again.
///
/// # Safety
/// As of [`vivarium_work_start`].
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_work_jump(
    _module: Object,
    arguments: *const Object,
    _count: isize,
) -> Object {
    // SAFETY: as above; the arguments are three, of which the last two are numbers that fit.
    // JUSTIFICATION: as above.
    unsafe {
        let python = &*PYTHON.load(Ordering::Acquire);
        let [code, offset, destination] = *arguments.cast::<[Object; 3]>();
        if python.small(destination) > python.small(offset) {
            return python.disable;
        }
        python.tick(code)
    }
}

impl Python {
    /// The value of an integer.
    ///
    /// # Safety
    /// It is one, not negative, and less than 2^30: an offset into a code object.
    unsafe fn small(&self, integer: Object) -> u32 {
        // SAFETY: the caller's promise; such an integer has one digit, at the place that Python's side has tried.
        // JUSTIFICATION: `PyLong_AsLong` would be called twice for each round of a loop.
        unsafe { integer.byte_offset(self.digit).cast::<u32>().read() }
    }

    /// Counts one tick of tenant code. Over the limit it raises, each time.
    ///
    /// # Safety
    /// `code` is a code object, and the thread holds Python's lock.
    unsafe fn tick(&self, code: Object) -> Object {
        let mut kind = null_mut();
        // SAFETY: the caller's promise, and the slot was given by Python.
        // JUSTIFICATION: as above.
        unsafe { (self.get_slot)(code, self.slot, &raw mut kind) };
        if kind.is_null() {
            // SAFETY: as above. JUSTIFICATION: as above.
            kind = unsafe { self.kind_of(code) };
        }
        match kind {
            TENANTS => {}
            OTHERS => return self.disable,
            // Python has raised something already.
            _ => return null_mut(),
        }
        match LEFT.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => {
                LEFT.store(left, Ordering::Relaxed);
                self.none
            }
            None => {
                EXCEEDED.store(true, Ordering::Relaxed);
                // SAFETY: the class lives for ever. JUSTIFICATION: as above.
                unsafe { (self.raise)(self.exception) };
                null_mut()
            }
        }
    }

    /// Asks Python once for each code object, and notes the answer in its slot. Null if that raised.
    ///
    /// # Safety
    /// As of [`Python::tick`].
    unsafe fn kind_of(&self, code: Object) -> Object {
        // SAFETY: the caller's promise; the answer is an object of ours to release, or null.
        // JUSTIFICATION: as above.
        unsafe {
            let answer = (self.call)(self.classify, code);
            if answer.is_null() {
                return null_mut();
            }
            (self.release)(answer);
            let kind = if answer == self.is_true { TENANTS } else { OTHERS };
            if (self.set_slot)(code, self.slot, kind) == 0 { kind } else { null_mut() }
        }
    }
}
