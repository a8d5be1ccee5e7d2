"""The administration of a daemon, with a blocking client."""

from __future__ import annotations

from datetime import datetime
from typing import Optional

from .._core import requests
from .._core.calls import Calls
from .._core.listing import admin_tenants, usage_rows
from .._core.requests import UsagePeriod
from .._core.transport import run
from ..models import AdminStatus, AdminTenant, DrainReply, PauseReply, UsageRow


class Admin:
    """What a token of scope `admin` can do, or root and the daemon's user on its Unix socket."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def status(self) -> AdminStatus:
        """Returns how the daemon does."""
        return run(self._calls.fetch(requests.admin_status(), AdminStatus._read))

    def tenants(self) -> list[AdminTenant]:
        """Returns every tenant, with what it uses now and its tokens."""
        return run(self._calls.fetch(requests.admin_tenants(), admin_tenants))

    def pause(self, tenant: Optional[str] = None, *, reason: Optional[str] = None) -> PauseReply:
        """Has new sessions and executions refused, of a tenant or of all. What runs goes on."""
        return run(self._calls.fetch(requests.pause(tenant, reason), PauseReply._read))

    def resume(self, tenant: Optional[str] = None) -> PauseReply:
        """Undoes a pause of that tenant, or of all: neither undoes the other."""
        return run(self._calls.fetch(requests.resume(tenant), PauseReply._read))

    def drain(self, *, exit: bool = False) -> DrainReply:
        """Takes no new work any more and ends every session; with `exit` the daemon too."""
        return run(self._calls.fetch(requests.drain(exit), DrainReply._read))

    def usage(
        self,
        *,
        start: Optional[datetime] = None,
        end: Optional[datetime] = None,
        period: Optional[UsagePeriod] = None,
        tenant: Optional[str] = None,
    ) -> list[UsageRow]:
        """Returns what tenants used, by default of the last 30 days and by day."""
        request = requests.usage(start, end, period, tenant)
        return run(self._calls.fetch(request, usage_rows))
