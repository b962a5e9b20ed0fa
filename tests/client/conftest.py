"""Fixtures of running services, shared with the tests of the service."""

from tests.service.conftest import service, stripes_folder

__all__ = ["service", "stripes_folder"]
