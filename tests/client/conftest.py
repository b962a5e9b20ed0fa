"""The services that clients ask are those of the service's own tests."""

from tests.service.conftest import service, stripes_folder

__all__ = ["service", "stripes_folder"]
