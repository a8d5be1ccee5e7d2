"""Makes objects of a component immortal: `python3 immortal.py python.wasm`.

The component lists them in its memory (guest/immortal.py). The first word of an object is its
reference count, which is changed where it stands, in a data segment of that memory.

Formats: Binary.md of https://github.com/WebAssembly/component-model, and
https://webassembly.github.io/spec/core/binary/modules.html#data-section
"""

import bisect
import struct
import sys

CORE_MODULE, DATA_SECTION, I32_CONST, END = 1, 11, 0x41, 0x0B
PREAMBLE_BYTES = 8
# `_Py_IMMORTAL_INITIAL_REFCNT` and `_Py_STATIC_IMMORTAL_INITIAL_REFCNT` of CPython 3.14 with 32
# bits, Include/refcount.h.
IMMORTAL, STATIC_IMMORTAL = 5 << 28, 7 << 28
MARK = b"vivarium immortal objects"


def leb128(data, at):
    """An unsigned integer, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at


def sections(data, at, end):
    """The number, the start and the end of each section of a module or component."""
    at += PREAMBLE_BYTES
    while at < end:
        number = data[at]
        size, at = leb128(data, at + 1)
        yield number, at, at + size
        at += size


def segments(data):
    """The active data segments of the component's memory: address in it, place here, size."""
    modules = [it[1:] for it in sections(data, 0, len(data)) if it[0] == CORE_MODULE]
    inner = [it for start, end in modules for it in sections(data, start, end)]
    for at in (start for number, start, _ in inner if number == DATA_SECTION):
        yield from segments_at(data, at)


def segments_at(data, at):
    count, at = leb128(data, at)
    for _ in range(count):
        if data[at] != 0 or data[at + 1] != I32_CONST:
            sys.exit("a data segment is at no constant address of the first memory")
        address, at = leb128(data, at + 2)
        if data[at] != END:
            sys.exit("the address of a data segment is no constant")
        size, at = leb128(data, at + 1)
        yield address, at, size
        at += size


def main(path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    known = sorted(segments(data))
    starts = [address for address, _, _ in known]

    def place(address):
        """Where a word of memory is here; None if it is in no segment."""
        start, at, size = known[bisect.bisect_right(starts, address) - 1]
        return at + address - start if start <= address <= start + size - 4 else None

    # The last: before it is the text in the guest's own code.
    at = data.rindex(MARK) + len(MARK)
    none, count = struct.unpack_from("<2I", data, at)
    if struct.unpack_from("<I", data, place(none)) != (STATIC_IMMORTAL,):
        sys.exit("None is not where it is said to be")
    made = 0
    for address in struct.unpack_from("<%dI" % count, data, at + 8):
        word = place(address)
        if word is not None and 0 < struct.unpack_from("<I", data, word)[0] < IMMORTAL:
            struct.pack_into("<I", data, word, IMMORTAL)
            made += 1
    if made < count / 2:
        sys.exit("of %d objects only %d were found" % (count, made))
    with open(path, "wb") as file:
        file.write(data)
    print("%d of %d objects are immortal" % (made, count))


if __name__ == "__main__":
    main(*sys.argv[1:])
