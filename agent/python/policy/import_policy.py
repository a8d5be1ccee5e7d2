"""Holds what tenant code imports to a list. Libraries import what they like.

Stands in for `builtins.__import__`, which the statement calls, and for the function of the import
system that `importlib.import_module` calls. C code calls the first as if the code that called it
did: its empty list of names tells.
"""

import host_modules
from guard import Any, builtins, call_for_user, interruptible, load, modules, sys
from policy_errors import ImportNotAllowed
from tenant_code import importer, is_tenants

NAMES_SHOWN = 20
# What is never refused: it is Python's syntax, and what we provide.
ALWAYS = {"__future__", "vivarium"}

getframe = sys._getframe


class State:
    rule: Any = None
    # Object, name of its attribute, what was there, and what is.
    replaced: list = []


state = State()


def begin(rule):
    state.rule = rule
    system = modules["_frozen_importlib"]
    replace(builtins, "__import__", checked_import(builtins.__import__))
    replace(system, "_gcd_import", checked_gcd_import(system, vars(system)["_gcd_import"]))


def replace(where, name, replacement):
    state.replaced.append((where, name, getattr(where, name), replacement))
    setattr(where, name, replacement)


def end():
    state.rule = None
    while state.replaced:
        where, name, before, replacement = state.replaced[-1]
        if getattr(where, name, None) is replacement:
            setattr(where, name, before)
        state.replaced.pop()


def checked_import(original):
    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        if state.rule is not None and level == 0 and not (type(fromlist) is list and not fromlist):
            call_for_user(check, name, fromlist, getframe().f_back)
        return original(name, globals, locals, fromlist, level)

    return interruptible(__import__)


def checked_gcd_import(system, original):
    def _gcd_import(name, package=None, level=0):
        if state.rule is not None:
            full = system._resolve_name(name, package, level) if level else name
            call_for_user(check, full, (), getframe().f_back)
        return original(name, package, level)

    return interruptible(_gcd_import)


def check(name, members, frame):
    """Raises if the code in this frame may not import a module, or these members of it."""
    frame = importer(frame)
    if frame is None or not is_tenants(frame) or type(name) is not str:
        return
    root = name.partition(".")[0]
    if root in ALWAYS or root in host_modules.state.added:
        return
    asked = ["%s.%s" % (name, member) for member in members or () if type(member) is str]
    if "allow" in state.rule:
        allowed = state.rule["allow"]
        if not covered(name, allowed) and not (asked and all(covered(it, allowed) for it in asked)):
            raise refusal(name, "is not allowed", "allowed", allowed)
    else:
        denied = state.rule["deny"]
        for it in (name, *asked):
            if covered(it, denied):
                raise refusal(it, "is denied", "denied", denied)


def covered(name, listed):
    return any(name == it or name.startswith(it + ".") for it in listed)


def refusal(name, what, label, listed):
    shown = ", ".join(sorted(listed)[:NAMES_SHOWN]) or "nothing"
    if len(listed) > NAMES_SHOWN:
        shown += " and %d more" % (len(listed) - NAMES_SHOWN)
    text = "import of %r %s in this execution; %s: %s" % (name, what, label, shown)
    difflib = load("difflib") if label == "allowed" else None
    close = difflib.get_close_matches(name, listed, 1) if difflib is not None else ()
    if close:
        text += "; the nearest to it is %r" % close[0]
    return ImportNotAllowed(text, name=name)
