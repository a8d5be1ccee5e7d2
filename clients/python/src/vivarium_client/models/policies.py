"""Policies of the language: what code is held to beside the sandbox. They are no wall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .names import Echo, Preset


class Imports(TypedDict, total=False):
    """Which modules code may import itself: one of the lists. A name covers its submodules."""

    allow: Sequence[str]
    deny: Sequence[str]


class AuditEvents(TypedDict, total=False):
    """Which audit events of Python (PEP 578) raise an error. All are counted."""

    deny: Sequence[str]


class KeptNames(TypedDict, total=False):
    """Which names an execution leaves to the next: one of the lists."""

    keep: Sequence[str]
    drop: Sequence[str]


class CodePolicies(TypedDict, total=False):
    """Policies that a session and an execution can have. They only tighten those above them."""

    policy: Preset
    """What holds that the others do not say."""
    max_work: int
    """Ticks of one execution: backward jumps, function starts and generator resumes. Needs
    Python 3.12 in the session."""
    imports: Imports
    audit_events: AuditEvents
    echo: Echo
    prints: bool
    """Whether outcomes have the values that were printed."""


class SessionPolicies(CodePolicies, total=False):
    """Policies of a session."""

    hidden: Sequence[str]
    """Distributions whose files the session does not have. This one is a wall."""


class RunPolicies(CodePolicies, total=False):
    """Policies of code in a session of its own."""

    modules: Mapping[str, Mapping[str, Any]]
    """Modules that the code can import: objects of JSON by name."""


class ExecutionPolicies(RunPolicies, total=False):
    """Policies of an execution."""

    names: KeptNames
