"""All mutants in one program: each behind a switch that is thrown in the built file.

cargo-mutants says what to change, a number and a place each. `switched` puts every change into the
source beside what it replaces:

    (match crate::mutant_switch::active() { 12 => a || b, _ => a && b })

The number of the active mutant is a static, which `throw` overwrites in a copy of the program: no
variable or file has to get through the sandbox. Comments say which mutant a piece of source is of,
so that those that the compiler refuses can be told apart and left out.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Parser

MAGIC = b"vivarium-mutant\0"
# Read by a const fn, which needs no unsafe code; not folded in a build without optimisation.
SWITCH = """
/// Only in mutation tests.
mod mutant_switch {
    #[repr(C)]
    struct Switch {
        magic: [u8; 16],
        number: [u8; 4],
    }
    #[used]
    static SWITCH: Switch = Switch { magic: *b"vivarium-mutant\\0", number: [0; 4] };
    #[inline(never)]
    pub(crate) const fn active() -> u32 {
        u32::from_le_bytes(SWITCH.number)
    }
}
"""
# What is evaluated by the compiler: no switch can be thrown in there.
CONSTANT = {"const_item", "static_item", "const_block", "array_type", "enum_variant"}
LANGUAGE = Language(tree_sitter_rust.language())


@dataclass
class Change:
    """What is put into the source from `start` to `end`, for these alternatives by number."""

    start: int
    end: int
    alternatives: dict
    kind: str  # "expression", "body", "arm", "match"


class Source:
    """A file with mutants."""

    def __init__(self, text):
        self.raw = text.encode()
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.encode()) + 1)
        self.root = Parser(LANGUAGE).parse(self.raw).root_node

    def offset(self, place):
        line = self.lines[place["line"] - 1]
        return self.starts[place["line"] - 1] + len(line[: place["column"] - 1].encode())

    def span(self, mutant):
        return self.offset(mutant["span"]["start"]), self.offset(mutant["span"]["end"])

    def text(self, start, end):
        return self.raw[start:end].decode()

    def enclosing(self, start, end, kinds):
        node = self.root.descendant_for_byte_range(start, end)
        while node is not None and node.type not in kinds:
            node = node.parent
        return node

    def applied(self, mutant):
        """The file with one mutation, and no switch."""
        start, end = self.span(mutant)
        return self.text(0, start) + mutant["replacement"] + self.text(end, len(self.raw))

    def changes(self, number, mutant):
        """The changes of a mutant, or why it has none."""
        start, end = self.span(mutant)
        node = self.root.descendant_for_byte_range(start, end)
        while node is not None:
            if node.type in CONSTANT:
                return "alone"
            node = node.parent
        genre, new = mutant["genre"], mutant["replacement"]
        if genre == "FnValue":
            if "impl " in mutant["function"]["return_type"]:
                # One type per function, and this would be another.
                return "alone"
            return [Change(start, start, {number: new}, "body")]
        if genre == "MatchArmGuard":
            return [Change(start, end, {number: new}, "expression")]
        if genre == "MatchArm":
            return self.without_arm(number, start, end)
        kinds = {
            "BinaryOperator": {"binary_expression", "compound_assignment_expr", "let_chain"},
            "UnaryOperator": {"unary_expression"},
            "StructField": {"struct_expression"},
        }[genre]
        node = self.enclosing(start, end, kinds)
        if node is None:
            return "alone"
        if node.type == "let_chain":
            # `||` has no place in there.
            return "does not build"
        if (
            not any((c.start_byte, c.end_byte) == (start, end) for c in node.children[:2])
            and genre != "StructField"
        ):
            return "alone"
        alternative = self.text(node.start_byte, start) + new + self.text(end, node.end_byte)
        return [Change(node.start_byte, node.end_byte, {number: alternative}, "expression")]

    def without_arm(self, number, start, end):
        arm = self.enclosing(start, start + 1, {"match_arm"})
        whole = self.enclosing(start, start + 1, {"match_expression"})
        pattern = arm.child_by_field_name("pattern")
        condition = pattern.child_by_field_name("condition")
        around = Change(whole.start_byte, whole.end_byte, {number: ""}, "match")
        if condition:
            guard = Change(
                condition.start_byte, condition.end_byte, {number: "false"}, "expression"
            )
        else:
            guard = Change(pattern.end_byte, pattern.end_byte, {number: ""}, "arm")
        return [guard, around]


def switched(source, changes):
    """The file with all of these changes behind switches."""
    merged: dict = {}
    for change in changes:
        key = (change.start, change.end, change.kind)
        if key in merged:
            merged[key].alternatives.update(change.alternatives)
        else:
            merged[key] = change
    # What begins first, and of that what is inserted, then the longer one, is outside.
    ordered = sorted(
        merged.values(), key=lambda c: (c.start, c.end != c.start, -c.end, c.kind != "match")
    )
    return render(source, 0, len(source.raw), ordered)


def render(source, start, end, changes):
    pieces, at = [], start
    while changes:
        first, rest = changes[0], changes[1:]
        pieces.append(source.text(at, first.start))
        inner = [c for c in rest if c.end <= first.end and first.start != first.end]
        changes = rest[len(inner) :]
        pieces.append(piece(first, render(source, first.start, first.end, inner)))
        at = first.end
    return "".join([*pieces, source.text(at, end)])


def piece(change, inner):
    every = ",".join(map(str, change.alternatives))
    active = "crate::mutant_switch::active()"
    if change.kind == "match":
        return marked(every, inner)
    if change.kind == "arm":
        return marked(every, f" if {active} != {every}")
    if change.kind == "body":
        returns = (
            marked(n, f"if {active} == {n} {{ return {new}; }}\n")
            for n, new in change.alternatives.items()
        )
        return "".join(returns) + inner
    arms = "".join(marked(n, f"{n} => {{ {new} }}\n") for n, new in change.alternatives.items())
    head, tail = f"/*[{every}*/(match {active} {{ {arms} _ => {{ ", f" }} }})/*{every}]*/"
    return head + inner + tail


def marked(numbers, text):
    return f"/*[{numbers}*/{text}/*{numbers}]*/"


def blamed(text, start, end):
    """The mutants of the smallest marked piece around a range of bytes of a written file."""
    raw, opened, found = text.encode(), [], None
    for mark in re.finditer(rb"/\*(\[)?([0-9,]+)(\])?\*/", raw):
        if mark[1]:
            opened.append(mark)
            continue
        begun = opened.pop()
        if begun.start() <= start and end <= mark.end():
            size = mark.end() - begun.start()
            if found is None or size < found[0]:
                found = size, [int(number) for number in mark[2].split(b",")]
    return found[1] if found else []


def switches(programs: Path):
    """The switches of the programs in a directory: offsets by name."""
    found = {}
    for path in sorted(programs.iterdir()):
        places = [place.end() for place in re.finditer(re.escape(MAGIC), path.read_bytes())]
        if places:
            found[path.name] = places
    return found


def throw(program: Path, places, number):
    """Makes a mutant the active one in a built program."""
    with program.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(number.to_bytes(4, "little"))
