"""What could follow at the cursor, and what stands there: completion and inspection.

Both look at the live namespace, and neither runs what the code under the cursor says: dotted
names are followed by looking attributes up, without properties or `__getattr__`. What does run
tenant code (`dir`, `repr`, a signature) has a time budget, and is left out if it takes longer.
"""

import budget
import completion
import inspection
from guard import load

SECONDS = 3


def answer(is_completion, source, cursor):
    """The answer to a request, as JSON."""
    function = completion.complete if is_completion else inspection.inspect
    found = budget.limited(function, source, min(cursor, len(source)), seconds=SECONDS)
    json = load("json")
    if json is None:
        raise RuntimeError("another module has the name of the standard library's json")
    return json.dumps(found)
