"""The API's calls that make images of sessions, or sessions of them, as requests."""

from __future__ import annotations

from typing import Optional

from .request import Patience, Request, get, path, post


def branch(session_id: str, count: int, checkpoint: Optional[str]) -> Request:
    """POST /v1/sessions/{id}/branch"""
    # Sent again it would make other sessions.
    fields = {"count": count, "checkpoint": checkpoint}
    return post(path("sessions", session_id, "branch"), fields, patience=Patience.WORK)


def imageable(session_id: str) -> Request:
    """GET /v1/sessions/{id}/imageable"""
    return get(path("sessions", session_id, "imageable"))


def checkpoint(session_id: str, name: Optional[str]) -> Request:
    """POST /v1/sessions/{id}/checkpoints"""
    # Sent again it would be another checkpoint, or find its name taken.
    where = path("sessions", session_id, "checkpoints")
    return post(where, {"name": name}, patience=Patience.WORK)


def checkpoints(session_id: str) -> Request:
    """GET /v1/sessions/{id}/checkpoints"""
    return get(path("sessions", session_id, "checkpoints"))


def delete_checkpoint(session_id: str, name: str) -> Request:
    """DELETE /v1/sessions/{id}/checkpoints/{name}"""
    where = path("sessions", session_id, "checkpoints", name)
    return Request("DELETE", where, idempotent=True, patience=Patience.WORK)


def rollback(session_id: str, checkpoint: str) -> Request:
    """POST /v1/sessions/{id}/rollback"""
    # Sent again it would undo what was done after the first.
    where = path("sessions", session_id, "rollback")
    return post(where, {"checkpoint": checkpoint}, patience=Patience.WORK)
