"""`vivarium.on_resume`: functions of code's own that are called after each resume.

Code imports it from `vivarium` (import_hooks.py).
"""

from guard import call_user
from report import format_traceback, strip_kernel
from streams import write_note

functions: list = []


def on_resume(function):
    """Calls `function` without arguments after each resume of this session, and in each of its
    branches. Returns it, so that this is a decorator as well."""
    if not callable(function):
        raise TypeError("on_resume takes a function")
    functions.append(function)
    return function


def call_all():
    for function in list(functions):
        try:
            call_user(function)
        except BaseException as error:
            write_note(format_traceback(error, strip_kernel(error)))


def populate(module):
    """Gives it to the module `vivarium`."""
    module.on_resume = on_resume
