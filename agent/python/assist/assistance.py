"""Answers requests for completion and inspection at a cursor.

Both look at the live namespace, and neither runs the code at the cursor: they look the attributes
of dotted names up, without properties or `__getattr__`. Calls that do run user code (`dir`,
`repr`, a signature) have a time budget, and are left out if they exceed it.
"""

import budget
import completion
import inspection
from guard import load

SECONDS = 3


def answer(is_completion, source, cursor):
    """The answer to a request, as JSON."""
    function = completion.complete if is_completion else inspection.inspect
    found = budget.with_time_limit(function, source, min(cursor, len(source)), seconds=SECONDS)
    json = load("json")
    if json is None:
        raise RuntimeError("another module has the name of the standard library's json")
    return json.dumps(found)
