"""Answers requests about code that is being written: what fits at a cursor, and whether it ends.

None runs that code. Completion and inspection look at the live namespace: they look the attributes
of dotted names up, without properties or `__getattr__`. Calls that do run user code (`dir`,
`repr`, a signature) have a time budget, and are left out if they exceed it.
"""

import budget
import completeness
import completion
import inspection
import wire
from guard import load

SECONDS = 3
ANSWERS = {
    wire.COMPLETE: completion.complete,
    wire.INSPECT: inspection.inspect,
    wire.IS_COMPLETE: completeness.is_complete,
}


def answer(kind, source, argument):
    """The answer to a request, as JSON. `argument` is what its function takes beside the source."""
    found = budget.with_time_limit(ANSWERS[kind], source, argument, seconds=SECONDS)
    json = load("json")
    if json is None:
        raise RuntimeError("another module has the name of the standard library's json")
    return json.dumps(found)
