"""What magics need of the cell that they stand in."""

import report
from compiler import compile_cell, run_compiled
from guard import call_user, is_kernel_code, load, main_module, sys


class UsageError(Exception):
    """A magic that does not exist, or arguments that it does not take."""

    __module__ = "IPython.core.error"


def split_arguments(line):
    """The words of a magic's arguments, as a shell splits them."""
    try:
        return load("shlex").split(line)
    except ValueError as error:
        raise UsageError(report.message_of(error)[0]) from None


def unknown(sign, name, known):
    """What to say about a magic that is not among the known ones."""
    close = load("difflib").get_close_matches(name, known, 1)
    hint = "did you mean %s%s?" % (sign, close[0]) if close else "%lsmagic lists those that work"
    return "no magic is called %s%s: %s" % (sign, name, hint)


def users_frame():
    """The innermost frame of user code."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_kernel_code(frame.f_code):
        frame = frame.f_back
    return frame


def run_body(source, lines_before=0):
    """Runs code that stands in the cell that runs, this many lines below the line that does."""
    frame = users_frame()
    first = frame.f_lineno - 1 + lines_before
    return run_source("\n" * first + source, frame.f_code.co_filename)


def run_source(source, name):
    """Runs code in the user's module. Returns the value of its final expression."""
    body, last = compile_cell(name, source)
    return run_compiled(body, last, vars(main_module))


def expanded(text):
    """A command or a magic's arguments, with `{expression}` and `$name` replaced.

    Only where the expression names a variable, and works: the shell has braces and dollars, too.
    """
    if "{" not in text and "$" not in text:
        return text
    frame = users_frame()
    names = {**frame.f_globals, **frame.f_locals}
    pattern = load("re").compile(r"\$\$(?=\w)|\$([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|\{([^{}]+)\}")

    def replacement(match):
        if match[0] == "$$":
            return "$"
        value = value_of(match[1] or match[2], names)
        return match[0] if value is None else value

    return pattern.sub(replacement, text)


def value_of(expression, names):
    """The text of an expression's value; None if it has no variable, or raises."""
    form = ""
    try:
        try:
            code = call_user(compile, expression.strip(), "<expression>", "eval")
        except SyntaxError:  # A slice has a colon, too.
            expression, _, form = expression.rpartition(":")
            code = call_user(compile, expression.strip(), "<expression>", "eval")
        if not any(name in names for name in code.co_names):
            return None
        return call_user(format, call_user(eval, code, names), form)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
