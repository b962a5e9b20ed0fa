"""HTTP service of a collection: a JSON API and a search page (`dlfh serve`; requires ``dlfh[serve]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand

if TYPE_CHECKING:
    from dlfh.service.app import create_app
    from dlfh.service.server import serve
    from dlfh.service.settings import Settings

__all__ = ["Settings", "create_app", "serve"]

__getattr__, __dir__ = import_on_demand(__name__, {"app": "create_app", "server": "serve", "settings": "Settings"})
