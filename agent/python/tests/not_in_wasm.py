"""The tests of the kernel that the runtime `wasm` does not pass, with the reason of each.

The other tests run in both runtimes: see harness.py.
"""

# The end of a test's or of a test case's id -> why it is skipped.
REASONS: dict = {}


def reason(test, needed):
    """Why a test is skipped in runtime `wasm`; None if it is not."""
    if needed:
        return "runtime wasm has only the standard library"
    parts = test.split(".")
    for name in (".".join(parts[-2:]), parts[-2], parts[-3] if len(parts) > 2 else ""):
        if name in REASONS:
            return REASONS[name]
    return None
