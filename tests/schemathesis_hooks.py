"""Hooks of Schemathesis, for the end-to-end test of the OpenAPI document."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    """Leaves out requests that are right, and that no document can say so of.

    Who gets a header that no document names is to ignore it (RFC 9110, 5.1). Servers in sessions
    get requests of any method.
    """
    is_unknown_header = any("schemathesis-unknown-property" in name for name in case.headers or {})
    return not is_unknown_header and not ("/ports/" in case.path and case.method != "GET")
