"""Counts work by functions of the agent's library (agent/src/ffi/work.rs), which Python calls as
its own.

They are made without headers: a `PyMethodDef` by ctypes, and what the library uses of Python as
pointers.
"""

import kernel_image
from guard import Any, load, monitoring

METH_FASTCALL = 0x80
# As in `Python` of agent/src/ffi/work.rs, in this order.
FUNCTIONS = (
    "PyObject_CallOneArg",
    "Py_DecRef",
    "PyErr_SetNone",
    "PyUnstable_Code_GetExtra",
    "PyUnstable_Code_SetExtra",
)


class State:
    counter: Any = None
    # What the library has pointers to lives for ever.
    kept: tuple = ()


state = State()


class NativeCounter:
    def __init__(self, library, python, start, jump):
        self.library, self.python, self.start, self.jump = library, python, start, jump

    @property
    def left(self):
        return self.library.vivarium_work_left()

    @property
    def exceeded(self):
        return self.library.vivarium_work_exceeded()


def counter(limit, exception, classify):
    """A counter that allows so many ticks; None without a library that knows this Python."""
    library = kernel_image.state.library
    if library is None:
        return None
    if state.counter is None:
        state.counter = make(library, exception, classify)
    if state.counter is None:
        return None
    library.vivarium_work_begin(state.counter.python, limit)
    return state.counter


def make(library, exception, classify):
    ctypes: Any = load("ctypes")
    api, pointer = ctypes.pythonapi, ctypes.c_void_p

    class MethodDef(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("function", pointer),
            ("flags", ctypes.c_int),
            ("doc", ctypes.c_char_p),
        ]

    new_function = api.PyCFunction_NewEx
    new_function.restype = ctypes.py_object
    new_function.argtypes = [pointer, pointer, pointer]

    def callable_of(name):
        address = ctypes.cast(getattr(library, name), pointer)
        method = MethodDef(name.encode(), address, METH_FASTCALL, None)
        state.kept += (method,)
        return new_function(ctypes.addressof(method), None, None)

    request_slot = api.PyUnstable_Eval_RequestCodeExtraIndex
    request_slot.restype, request_slot.argtypes = ctypes.c_ssize_t, [pointer]
    # A round of a loop costs two such numbers.
    digit = int.__basicsize__
    for value in (0, 5, 1 << 20, (1 << 30) - 1):
        if ctypes.c_uint32.from_address(id(value) + digit).value != value:
            return None
    objects = (None, monitoring.DISABLE, exception, classify, True)
    state.kept += objects
    words = [*map(id, objects), request_slot(None), digit]
    words += [ctypes.cast(getattr(api, name), pointer).value for name in FUNCTIONS]
    python = (ctypes.c_ssize_t * len(words))(*words)
    state.kept += (python,)
    library.vivarium_work_begin.argtypes = [pointer, ctypes.c_uint64]
    library.vivarium_work_begin.restype = None
    library.vivarium_work_left.restype = ctypes.c_uint64
    start, jump = callable_of("vivarium_work_start"), callable_of("vivarium_work_jump")
    return NativeCounter(library, ctypes.addressof(python), start, jump)
