"""Takes the free memory between other memory, for good, as agent/src/zygote/pages.rs does for the host's.

What a session makes is then in pages that it alone has, and not in those that all have in common, of
which each that is written to is copied.
"""

# obmalloc.c of a 32-bit Python: sizes of blocks, and the bytes of an empty `bytes` object.
UNIT, LARGEST_BLOCK, EMPTY = 8, 512, 17
# So many blocks in a row are in a pool that nobody else has.
IN_A_ROW = 8
MOST = 1 << 14
LARGEST = 120 << 10

kept: list = []


def fill():
    for size in range(UNIT * 3, LARGEST_BLOCK + 1, UNIT):
        fill_blocks(size)
    end = id(bytes(16 << 20))
    size = LARGEST
    while size > LARGEST_BLOCK:
        fill_chunks(size, end)
        size = size // 8 * 7


def fill_blocks(size):
    row, last = 0, 0
    for _ in range(MOST):
        block = bytes(size - EMPTY)
        row = row + 1 if id(block) == last + size else 0
        if row == IN_A_ROW:
            return
        last = id(block)
        kept.append(block)


def fill_chunks(size, end):
    for _ in range(MOST):
        chunk = bytes(size)
        if id(chunk) >= end:
            return
        kept.append(chunk)
