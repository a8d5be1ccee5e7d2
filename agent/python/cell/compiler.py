"""Compiles sources as an interactive interpreter does, and runs them.

IPython's syntax is translated only in a source that is not Python (syntax.py).
"""

import source_cache
from guard import Any, call_user, load

# Flags of compile(): CPython's Include/cpython/compile.h, the same since 3.8.
ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
# Of code objects, Include/cpython/code.h: CO_COROUTINE, and all of `from __future__`.
CO_COROUTINE = 0x80
CO_FUTURE = 0x1FE0000

# A longer source is compiled without AST objects, which take some 700 bytes and 5 microseconds for
# every short statement.
AST_MAX_CHARS = 256 << 10


class State:
    # Of the `from __future__` statements that ran.
    future_flags = 0
    # Changes the AST of an execution's source, if its policy wants that.
    transform: Any = None


state = State()


def compile_cell(name, source):
    """Compiles a source, which may have lines of IPython's syntax, as `compile_source` does."""
    try:
        return compile_source(name, source)
    except SyntaxError as caught:
        error = caught
    import syntax

    _, codes, error = syntax.translate_all(source, error, lambda text: compile_source(name, text))
    if error is None:
        return codes
    syntax.point_at_original(error, source)
    raise error


def flags():
    """The flags of compile() for an execution's source."""
    return TOP_LEVEL_AWAIT | state.future_flags


def compile_source(name, source):
    """Compiles a source to the code of all statements but a final expression, and the code of that.

    Either is None if there is none.
    """
    used = flags()

    def compile_as(what, mode, extra=0):
        return call_user(compile, what, name, mode, used | extra, True)

    if is_one_line(source):
        try:
            return None, compile_as(source, "eval")
        except SyntaxError:
            pass  # A statement, then.
    try:
        if len(source) > AST_MAX_CHARS and state.transform is None:
            return compile_long_source(source, compile_as)
        tree = compile_as(source, "exec", ONLY_AST)
        if state.transform is not None:
            state.transform(tree)
        if not tree.body or type(tree.body[-1]).__name__ != "Expr":
            return compile_as(tree, "exec"), None
        expression = type(compile_as("0", "eval", ONLY_AST))(tree.body.pop().value)
        body = compile_as(tree, "exec") if tree.body else None
        if body is not None:
            used |= body.co_flags & CO_FUTURE
        return body, compile_as(expression, "eval")
    except SyntaxError as caught:
        error = caught
    if error.text is None and type(error.lineno) is int:
        # Raised after parsing, where Python would look for the source line in a file.
        error.text = source_cache.line(name, error.lineno)
    raise error


def is_one_line(source):
    """Whether a source may be a single expression, which `eval` mode finds out without an AST.

    Not with a backslash: Python would warn of an invalid escape at both attempts. Not with an
    indent, which `eval` mode allows.
    """
    return len(source) < 256 and "\n" not in source and "\\" not in source and source[:1] > " "


def compile_long_source(source, compile_as):
    """Like `compile_source`, for a long source: only its last line can be the final expression."""
    end = len(source)
    while end > 0:
        start = source.rfind("\n", 0, end) + 1
        if start < end and source[start] not in " \t\f\r#":
            try:
                # A line that compiles alone, after lines that compile, is a statement of its own.
                body = compile_as(source[:start], "exec")
                return body, compile_as(
                    "\n" * source.count("\n", 0, start) + source[start:], "eval"
                )
            except SyntaxError:
                break
        end = start - 1
    return compile_as(source, "exec"), None


def run_code(code, names):
    """Runs compiled code. Returns its value."""
    result = call_user(eval, code, names)
    if not code.co_flags & CO_COROUTINE:
        return result
    import event_loop

    return event_loop.run(result)


def run_compiled(body, last, names):
    """Runs the two codes of `compile_source`. Returns the value of the final expression."""
    if body is not None:
        state.future_flags |= body.co_flags & CO_FUTURE
        run_code(body, names)
    return None if last is None else run_code(last, names)


def is_silenced(source):
    """Whether a source ends with a semicolon: its value is not shown then, as in IPython."""
    line = source.rstrip().rpartition("\n")[2]
    if "#" not in line or ";" not in line:
        return line.endswith(";")
    tokenize = load("tokenize")
    if tokenize is None:
        return False
    try:
        tokens = list(tokenize.generate_tokens(iter(source.splitlines(True)).__next__))
    except (SyntaxError, tokenize.TokenError):  # Of a line in IPython's syntax.
        return False
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.DEDENT, tokenize.ENDMARKER)
    shown = [token.string for token in tokens if token.type not in skipped]
    return shown[-1:] == [";"]
