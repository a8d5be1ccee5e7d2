"""Tells whether a source can be executed as it is, or needs another line.

Python decides (codeop), after IPython's syntax is translated as for an execution. Two kinds of code
that Python could execute count as incomplete, as at every prompt: an indented block, and a cell
after `%%`, go on until an empty line.
"""

from budget import call_timed
from compiler import ONLY_AST
from completion import open_string
from guard import load
from source_cache import lines_of

# A longer source, which nobody types, counts as complete: compiling it could take all memory.
SOURCE_MAX_CHARS = 256 << 10
INDENT = "    "
NAME = "<is_complete>"
# Where a statement has blocks, the last one first.
BLOCKS = ("finalbody", "orelse", "handlers", "cases", "body")
ENDS_BLOCK = ("Return", "Pass", "Break", "Continue", "Raise")


def is_complete(source, flags):
    """{status: "complete", "incomplete" or "invalid", indent: that of the next line}.

    `flags` are those of compile() that an execution would have.
    """
    status, indent = "complete", ""
    if len(source) <= SOURCE_MAX_CHARS:
        warnings = load("warnings")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                indent = next_indent(source[source.startswith("\ufeff") :], flags)
                status = "complete" if indent is None else "incomplete"
            except Exception:  # Also a MemoryError or RecursionError: execution has the same.
                status = "invalid"
    return {"status": status, "indent": indent or ""}


def next_indent(source, flags):
    """The indentation of the line that the source needs; None if it is complete.

    Raises what the compiler raises if nothing can complete it.
    """

    def compile_source(source, more_flags=0):
        return call_timed(compile, source, NAME, "exec", flags | more_flags, True)

    last_line = lines_of(source)[-1]
    is_cell = source.lstrip().startswith("%%")
    try:
        compile_source(source)
        error = None
    except SyntaxError as caught:
        if last_line.endswith("\\\n"):  # A command goes on like a statement.
            return ""
        import syntax

        source, _, error = syntax.translate_all(source, caught, compile_source)
    if error is not None:
        codeop = load("codeop").CommandCompiler()
        codeop.compiler.flags |= flags
        if call_timed(codeop, source, NAME, "exec") is None:
            return indent_in_unfinished(source, compile_source)
    if not last_line.strip():
        return None
    indent = None
    if "\n" in source or "\r" in source:
        indent = indent_in_block(source, compile_source(source, ONLY_AST))
    return "" if indent is None and is_cell else indent


def indent_in_block(source, tree):
    """The indentation of the statement after a whole source, in the block it ends in, or None."""
    lines, blocks = lines_of(source), blocks_at_end(tree)
    for at in range(len(blocks) - 1, 0, -1):
        block = blocks[at]
        indent = indent_of(lines[block[0].lineno - 1])
        if 0 < block[0].col_offset == len(indent):
            is_over = type(block[-1]).__name__ in ENDS_BLOCK
            return indent_of(lines[line_number(blocks[at - 1][-1]) - 1]) if is_over else indent
    return None


def indent_in_unfinished(source, compile_source):
    """The indentation of the line after a source that can not be compiled yet."""
    if open_string(source)[0]:
        return ""
    lines = lines_of(source)
    last = next((line for line in reversed(lines) if line.strip()), "")
    # Deeper than any line: only a block that is to begin may have that.
    deep = indent_of(last) + " " * (max(len(indent_of(line)) for line in lines) + 1)
    try:
        tree = compile_source("".join(lines) + deep + "pass", ONLY_AST)
    except SyntaxError:
        opens = last.partition("#")[0].rstrip().endswith((":", "(", "[", "{"))
        return indent_of(last) + INDENT * opens
    return indent_of(lines[line_number(blocks_at_end(tree)[-2][-1]) - 1]) + INDENT


def blocks_at_end(tree):
    """The lists of statements, handlers and cases that a source ends in, the outermost first."""
    blocks = [tree.body]
    while True:
        # User code may have changed the node types, but not these nodes.
        fields = vars(blocks[-1][-1]) if blocks[-1] else {}
        inner = next((fields[name] for name in BLOCKS if fields.get(name)), None)
        if inner is None:
            return blocks
        blocks.append(inner)


def line_number(node):
    """The line that a statement, handler or case begins in."""
    return node.pattern.lineno if type(node).__name__ == "match_case" else node.lineno


def indent_of(line):
    return line[: len(line) - len(line.lstrip())]
