"""The policy of one execution: what it is held to, and what is noted of it.

Each kind is a part of its own with `begin(policy)` and `end()`, and `noted()` where it notes
something. The user's signal handlers may raise between any two instructions of the kernel. So `end`
undoes whatever `begin` came to, and can be called again, until one call of it has returned.

Loaded by the first execution that has a policy. None of it is a wall: see docs/policies.md.
"""

import audit_events
import echo
import host_modules
import import_policy
import kept_names
import prints
import wire
import work
from guard import Any, load


class State:
    # Those that have begun.
    parts: list = []
    # Those that did, whole.
    begun: tuple = ()
    # How often the end of the last of them was tried.
    attempts = 0
    dumps: Any = None
    echo = "last"
    is_stateless = False


state = State()


# By key of the policy. Names are put back last. Work and events count the least of the kernel's.
PARTS: Any = {
    "names": kept_names,
    "modules": host_modules,
    "imports": import_policy,
    "prints": prints,
    "echo": echo,
    "max_work": work,
    "audit_events": audit_events,
}
# By key of the account.
NOTING: Any = {"work": work, "audit_events": audit_events, "prints": prints}
ATTEMPTS_MAX = 5
# What keys have when nothing is on.
OFF: tuple = (None, False, [], "last")


def reset():
    """Forgets the policy of the execution before. Until it is called, the account is that one's."""
    state.begun, state.echo, state.is_stateless = (), "last", False


def begin(text):
    """Applies the policy in this JSON."""
    json = load("json")
    if json is None:
        raise RuntimeError("a policy needs json, and another module has its name")
    state.dumps = json.dumps
    policy = json.loads(text)
    names = policy["names"] or {}
    state.echo = policy["echo"]
    state.is_stateless = "keep" in names
    for key, part in PARTS.items():
        if policy[key] not in OFF:
            state.parts.append(part)
            part.begin(policy[key])
            # Only now: what it has noted before is of an earlier execution.
            state.begun = (*state.begun, part)


def end():
    """Takes it off."""
    while state.parts:
        state.attempts += 1
        # Code may have put something into Python that always raises.
        if state.attempts <= ATTEMPTS_MAX:
            state.parts[-1].end()
        state.parts.pop()
        state.attempts = 0


def shows_value():
    return state.echo != "none"


def keeps_value():
    """Whether a value becomes `_`."""
    return not state.is_stateless


def is_exceeded():
    """Whether the execution did more work than it may."""
    return work in state.begun and work.is_exceeded()


def exceeded(failure):
    return work.exceeded(failure)


def account():
    """The ACCOUNT frame's JSON."""
    noted = {key: part.noted() for key, part in NOTING.items() if part in state.begun}
    while noted:
        try:
            text = state.dumps(noted, ensure_ascii=False).encode("utf-8", "replace")
        except BaseException:
            break  # Code has changed json, or memory is short.
        if len(text) <= wire.ACCOUNT_MAX_BYTES:
            return text
        # Only names of events that nobody but code itself has made are so long.
        noted.popitem()
    return b"{}"
