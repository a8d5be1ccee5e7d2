//! The registers of a process, kept as those of a function's return, and set again. A part of [`super`].

use std::arch::global_asm;
use std::ffi::{c_int, c_void};

use super::Replacing;

/// What a function's caller relies on to be as it was: System V ABI (x86-64), AAPCS64.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Registers(pub(crate) [u64; 32]);

unsafe extern "C" {
    /// Saves the registers of its return, calls `save`, and returns what that does; or, where
    /// [`vivarium_image_restore`] was given the registers, [`RESUMED`].
    fn vivarium_image_capture(
        registers: *mut Registers,
        save: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn vivarium_image_restore(registers: *const Registers) -> !;
    pub(super) fn vivarium_image_stand_on(
        top: usize,
        enter: extern "C" fn(*const c_void, usize) -> !,
        run: *const c_void,
        bytes: usize,
    ) -> !;
}

/// No exit code, pid or error number.
const RESUMED: c_int = c_int::MIN;

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl vivarium_image_capture",
    ".hidden vivarium_image_capture",
    "vivarium_image_capture:",
    "mov [rdi], rbx",
    "mov [rdi + 8], rbp",
    "mov [rdi + 16], r12",
    "mov [rdi + 24], r13",
    "mov [rdi + 32], r14",
    "mov [rdi + 40], r15",
    "lea rax, [rsp + 8]",
    "mov [rdi + 48], rax",
    "mov rax, [rsp]",
    "mov [rdi + 56], rax",
    "stmxcsr [rdi + 64]",
    "fnstcw [rdi + 72]",
    "sub rsp, 8",
    "mov rdi, rdx",
    "call rsi",
    "add rsp, 8",
    "ret",
    ".globl vivarium_image_restore",
    ".hidden vivarium_image_restore",
    "vivarium_image_restore:",
    "mov rbx, [rdi]",
    "mov rbp, [rdi + 8]",
    "mov r12, [rdi + 16]",
    "mov r13, [rdi + 24]",
    "mov r14, [rdi + 32]",
    "mov r15, [rdi + 40]",
    "mov rsp, [rdi + 48]",
    "ldmxcsr [rdi + 64]",
    "fldcw [rdi + 72]",
    "mov eax, 0x80000000",
    "jmp [rdi + 56]",
    ".globl vivarium_image_stand_on",
    ".hidden vivarium_image_stand_on",
    "vivarium_image_stand_on:",
    "mov rsp, rdi",
    "mov rax, rsi",
    "mov rdi, rdx",
    "mov rsi, rcx",
    "xor ebp, ebp",
    "call rax",
    "ud2",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl vivarium_image_capture",
    ".hidden vivarium_image_capture",
    "vivarium_image_capture:",
    "stp x19, x20, [x0]",
    "stp x21, x22, [x0, #16]",
    "stp x23, x24, [x0, #32]",
    "stp x25, x26, [x0, #48]",
    "stp x27, x28, [x0, #64]",
    "stp x29, x30, [x0, #80]",
    "mov x9, sp",
    "mrs x10, fpcr",
    "stp x9, x10, [x0, #96]",
    "stp d8, d9, [x0, #112]",
    "stp d10, d11, [x0, #128]",
    "stp d12, d13, [x0, #144]",
    "stp d14, d15, [x0, #160]",
    "stp x29, x30, [sp, #-16]!",
    "mov x0, x2",
    "blr x1",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".globl vivarium_image_restore",
    ".hidden vivarium_image_restore",
    "vivarium_image_restore:",
    "ldp x19, x20, [x0]",
    "ldp x21, x22, [x0, #16]",
    "ldp x23, x24, [x0, #32]",
    "ldp x25, x26, [x0, #48]",
    "ldp x27, x28, [x0, #64]",
    "ldp x29, x30, [x0, #80]",
    "ldp x9, x10, [x0, #96]",
    "ldp d8, d9, [x0, #112]",
    "ldp d10, d11, [x0, #128]",
    "ldp d12, d13, [x0, #144]",
    "ldp d14, d15, [x0, #160]",
    "mov sp, x9",
    "msr fpcr, x10",
    "mov w0, #0x80000000",
    "ret",
    ".globl vivarium_image_stand_on",
    ".hidden vivarium_image_stand_on",
    "vivarium_image_stand_on:",
    "mov sp, x0",
    "mov x9, x1",
    "mov x0, x2",
    "mov x1, x3",
    "mov x29, #0",
    "mov x30, #0",
    "blr x9",
    "brk #1",
);

/// Where the stack pointer is among them.
pub(crate) const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 12 } else { 6 };

/// Calls `save` with the registers of this place, and returns what it does; or returns `None`, in a process
/// that [`restore`] has let go on from here.
///
/// In that process memory is as it was while `save` ran: it writes to nothing of its caller's that is
/// used later, but through what it returns.
pub(crate) fn capture<T, F: FnOnce(&Registers) -> T>(save: F) -> Option<T> {
    struct Call<T, F> {
        registers: Registers,
        save: Option<F>,
        result: Option<T>,
    }
    unsafe extern "C" fn call<T, F: FnOnce(&Registers) -> T>(argument: *mut c_void) -> c_int {
        // SAFETY: `capture` passes this type, and uses it no more until this returns.
        // JUSTIFICATION: assembly knows pointers only.
        let call = unsafe { &mut *argument.cast::<Call<T, F>>() };
        call.result = call.save.take().map(|save| save(&call.registers));
        0
    }
    let mut state = Call { registers: Registers::default(), save: Some(save), result: None };
    let argument = &raw mut state;
    // SAFETY: registers and argument outlive the call. For the compiler it returns once, as any does: where it
    // returns for the second time is another process, with the caller's memory and registers of this one.
    // JUSTIFICATION: registers are out of a safe language's reach.
    let returned = unsafe {
        vivarium_image_capture(&raw mut (*argument).registers, call::<T, F>, argument.cast())
    };
    if returned == RESUMED { None } else { state.result }
}

/// Goes on where [`capture`] was called, after its memory was put in.
pub(crate) fn restore(_: Replacing, registers: &Registers) -> ! {
    // SAFETY: what the registers point to was loaded with them. If an image lies, this process does
    // what its tenant could have it do in any other way.
    // JUSTIFICATION: as above.
    unsafe { vivarium_image_restore(std::ptr::from_ref(registers)) }
}
