"""Approvals of a blocking client: calls that wait until somebody allows or denies them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from .._core import requests
from .._core.calls import Calls
from .._core.listing import approval_page
from .._core.transport import run
from ..models import Approval
from ..models.names import Remember


class Approvals:
    """The tenant's calls that wait for approval; of an administrator, those of all tenants.

    Deciding takes a token of scope `approve`, or an administrator.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self, *, all: bool = False) -> Iterator[Approval]:
        """Yields calls that wait, oldest first; with `all` those of the last minutes too."""
        after = None
        while True:
            page = run(self._calls.fetch(requests.approvals(after, all), approval_page))
            yield from page.entries
            after = page.next
            if after is None:
                return

    def get(self, id: str) -> Approval:
        """Returns a call, with the code that is to run."""
        return run(self._calls.fetch(requests.approval(id), Approval._read))

    def allow(
        self, id: str, *, remember: Optional[Remember] = None, reason: Optional[str] = None
    ) -> Approval:
        """Allows a call.

        Args:
            id: The approval's id.
            remember: What is remembered: at most, and by default, what the tenant's rule says.
            reason: Why; the tenant sees it.

        Raises:
            Conflict: It waits no more.
        """
        request = requests.decide(id, "allow", remember, reason)
        return run(self._calls.fetch(request, Approval._read))

    def deny(self, id: str, *, reason: Optional[str] = None) -> Approval:
        """Denies a call.

        Raises:
            Conflict: It waits no more.
        """
        request = requests.decide(id, "deny", None, reason)
        return run(self._calls.fetch(request, Approval._read))
