"""A collection over HTTP: JSON for programs, and a page for people (`dlfh serve`; needs ``dlfh[serve]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.service._app import create_app
    from dlfh.service._server import serve
    from dlfh.service._settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app", "serve"]

__getattr__, __dir__ = import_on_demand(
    __name__, {"_app": "create_app", "_server": "serve", "_settings": "Limits Settings"}
)
