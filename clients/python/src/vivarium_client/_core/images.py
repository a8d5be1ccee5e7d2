"""The API's calls about images of sessions, as requests."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from .content import AsyncContent, Source
from .request import Patience, Request, get, path, post, with_query


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


def checkpoint_diff(session_id: str, name: str, from_: Optional[str]) -> Request:
    """GET /v1/sessions/{id}/checkpoints/{name}/diff"""
    return get(path("sessions", session_id, "checkpoints", name, "diff"), {"from": from_})


def delete_checkpoint(session_id: str, name: str) -> Request:
    """DELETE /v1/sessions/{id}/checkpoints/{name}"""
    where = path("sessions", session_id, "checkpoints", name)
    return Request("DELETE", where, idempotent=True, patience=Patience.WORK)


def rollback(session_id: str, checkpoint: str) -> Request:
    """POST /v1/sessions/{id}/rollback"""
    # Sent again it would undo what was done after the first.
    where = path("sessions", session_id, "rollback")
    return post(where, {"checkpoint": checkpoint}, patience=Patience.WORK)


def stored_images(after: Optional[str]) -> Request:
    """GET /v1/images"""
    return get(path("images"), {"after": after})


def stored_image(session_id: str) -> Request:
    """GET /v1/images/{id}"""
    return get(path("images", session_id))


def delete_image(session_id: str) -> Request:
    """DELETE /v1/images/{id}"""
    where = path("images", session_id)
    return Request("DELETE", where, idempotent=True, patience=Patience.WORK)


def export_image(session_id: str, checkpoint: Optional[str]) -> Request:
    """GET /v1/images/{id}/export"""
    return get(path("images", session_id, "export"), {"checkpoint": checkpoint})


def import_image(image: AsyncContent, id: Optional[str]) -> Request:
    """POST /v1/images"""
    # A str is a path: no image is text.
    content = Source.of(Path(image) if isinstance(image, str) else image)
    headers = {"Content-Type": "application/x-tar"}
    # Sent again it would find its id taken.
    where = with_query(path("images"), {"id": id})
    return Request("POST", where, content, headers, patience=Patience.WORK)
