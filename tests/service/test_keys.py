"""What a client may do depends on its key: every endpoint for every role, and keys that come and go."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dlfh.cli import main
from dlfh.errors import InputError
from dlfh.service import Settings, create_app
from dlfh.service.keys import Keys, create_key, read_keys, revoke_key

Keyring = dict[str | None, str]  # keys by role
ROLES = (None, "read", "write", "admin")
#: Requests, and who may send them: nobody, read, write, admin. p: permitted, o: permitted if reading is public.
TABLE = {
    ("GET", "/"): "pppp",
    ("GET", "/style.css"): "pppp",
    ("GET", "/docs"): "pppp",
    ("GET", "/healthz"): "pppp",
    ("GET", "/readyz"): "pppp",
    ("GET", "/openapi.json"): "pppp",
    ("GET", "/metrics"): "-ppp",
    ("GET", "/v1/collection"): "oppp",
    ("GET", "/v1/map"): "oppp",
    ("GET", "/v1/items"): "oppp",
    ("GET", "/v1/items/8.png"): "oppp",
    ("GET", "/v1/items/8.png/thumbnail"): "oppp",
    ("GET", "/v1/items/8.png/image"): "oppp",
    ("GET", "/v1/complete?q=l"): "oppp",
    ("GET", "/v1/queries/00000000000000000000000000000000"): "oppp",
    ("GET", "/v1/label/next"): "oppp",
    ("GET", "/v1/nothing"): "oppp",
    ("POST", "/v1/search"): "oppp",
    ("POST", "/v1/search/image"): "oppp",
    ("POST", "/v1/queries/image"): "oppp",
    ("POST", "/v1/suggest"): "oppp",
    ("POST", "/v1/items"): "--pp",
    ("POST", "/v1/remove"): "--pp",
    ("POST", "/v1/label"): "--pp",
    ("POST", "/v1/feedback"): "--pp",
    ("POST", "/v1/undo"): "--pp",
    ("PUT", "/v1/items/new"): "--pp",
    ("PATCH", "/v1/items/8.png"): "--pp",
    ("DELETE", "/v1/items/none"): "--pp",
    ("POST", "/v1/nothing"): "--pp",
    ("DELETE", "/v1/search"): "--pp",
    ("POST", "/v1/relearn"): "---p",
}


@pytest.fixture(scope="module")
def place(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    shutil.copytree(stripes_folder, place / "stripes")
    return place


@pytest.fixture(scope="module")
def keys(place: Path) -> Keyring:
    return {role: create_key(place / "keys.txt", f"{role}-er", role) for role in ("read", "write", "admin")}


class Service:
    """A service in this process."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.app = create_app(folder, settings)

    def request(self, method: str, path: str, key: str | None = None, **content: Any) -> httpx.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client:
                return await client.request(method, path, headers=headers, **content)

        return asyncio.run(send())


@pytest.fixture(scope="module")
def services(place: Path, photos: Path, keys: Keyring) -> dict[str, Service]:
    """The same collection, with closed and with public reading."""
    settings = Settings(keys=place / "keys.txt", writable=True, workers=1, pictures=(photos,))
    return {
        "closed": Service(place / "stripes", settings),
        "public": Service(place / "stripes", replace(settings, public=True)),
    }


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("reading", ["closed", "public"])
@pytest.mark.parametrize(("method", "path"), TABLE)
def test_every_endpoint_for_every_role(
    services: dict[str, Service], keys: Keyring, method: str, path: str, reading: str, role: str | None
) -> None:
    response = services[reading].request(method, path, keys.get(role))
    cell = TABLE[method, path][ROLES.index(role)]
    is_permitted = cell == "p" or (cell == "o" and reading == "public")
    if is_permitted:
        assert response.status_code != 401
        assert "this key may only" not in response.text
    else:
        assert response.status_code == (401 if role is None else 403)
        assert "key" in response.json()["error"]


def test_the_table_has_all_endpoints(services: dict[str, Service], keys: Keyring) -> None:
    described = services["closed"].request("GET", "/openapi.json").json()["paths"]
    ids = {"{id}": "8.png", "{key}": "0" * 32}
    missing = []
    for path, methods in described.items():
        for name, value in ids.items():
            path = path.replace(name, value)
        for method in methods:
            known = {(each, address.split("?")[0]) for each, address in TABLE}
            if (method.upper(), path) not in known and not path.startswith("/v1/items/8.png"):
                missing.append((method, path))
    assert not missing
    assert {method for path, methods in described.items() if path == "/v1/items/{id}" for method in methods} == {
        "get",
        "put",
        "patch",
        "delete",
    }


def test_a_client_learns_its_role(services: dict[str, Service], keys: Keyring) -> None:
    def role(reading: str, key: str | None) -> Any:
        return services[reading].request("GET", "/v1/collection", key).json().get("role")

    for name in ("read", "write", "admin"):
        assert role("closed", keys[name]) == name
    assert role("closed", None) is None
    assert role("public", None) == "read"


def test_a_key_is_revoked_without_a_restart(services: dict[str, Service], place: Path, capsys: Any) -> None:
    service, file = services["closed"], str(place / "keys.txt")
    assert main(["key", file, "brief", "--role", "write"]) == 0
    key = capsys.readouterr().out.strip()
    assert key not in Path(file).read_text(encoding="utf-8")
    assert service.request("PATCH", "/v1/items/8.png", key, json={}).status_code == 200
    assert main(["key", file, "brief", "--revoke"]) == 0
    response = service.request("PATCH", "/v1/items/8.png", key, json={})
    assert (response.status_code, response.json()) == (401, {"error": "the key is wrong"})
    assert services["public"].request("GET", "/v1/collection", key).status_code == 401


def test_without_its_file_no_key_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    key = create_key(file, "a", "admin").encode()
    keys = Keys(file, "a-token-of-the-environment")
    assert (keys.role_of(key), keys.role_of(key + b"x"), keys.role_of(b"")) == ("admin", None, None)
    content = file.read_text(encoding="utf-8")
    file.unlink()
    assert keys.role_of(key) is None
    assert keys.role_of(b"a-token-of-the-environment") == "admin"
    file.write_text(f"# a comment\n\nnot a key\n{content}", encoding="utf-8")
    assert keys.role_of(key) == "admin"  # invalid lines do not hide the others
    with pytest.raises(InputError, match=r"keys.txt, line 3: expected a name, a role \(read, write, admin\) and"):
        Keys(file, None)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 65, "a\nb admin " + "0" * 64])
def test_names_of_keys(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="the name of a key has"):
        create_key(tmp_path / "keys.txt", name, "read")
    assert not (tmp_path / "keys.txt").exists()


def test_a_file_keeps_its_other_lines(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("# for the shop\n", encoding="utf-8")
    for name in ("a", "ab"):
        create_key(file, name, "read")
    with pytest.raises(InputError, match="already has a key called 'a'"):
        create_key(file, "a", "admin")
    revoke_key(file, "a")
    assert [(key.name, key.role) for key in read_keys(file)] == [("ab", "read")]
    assert file.read_text(encoding="utf-8").startswith("# for the shop\n")
    with pytest.raises(InputError, match="has no key called 'a'"):
        revoke_key(file, "a")
    with pytest.raises(InputError, match="cannot be read from"):
        revoke_key(tmp_path / "none", "a")
