"""The shipped web tool as people use it: what it depends on is locked and installed, and its pages come by the gate.

The package index and the site are servers on this machine; the site's name leads to a public address, a connection to
which is led here, at the two places where the host asks the system.
"""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from host.authoring.installed_wheels import index_of
from host.egress.certificates import TestAuthority
from host.egress.ground import redirect
from integration.probe import call_once
from modules import shipped
from paddock.egress import dialer
from paddock.module_sources.provisioning import SourceOptions
from paddock.session.tool_call import ToolCallOutcome
from paddock_sources import builtin
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.locked_sources import LockUse
from sources.index_server import IndexServer

_SITE = "93.184.216.34"
_PUBLIC = {"net": ["public"]}


class _Site(BaseHTTPRequestHandler):
    """A page, one without end, and two that send their readers to this machine: by another name, and by its own."""

    def do_GET(self) -> None:
        body = b"<title>News</title><h1>It works</h1><script>no</script>"
        if self.path in ("/inside", "/rebound"):
            name = "inside.example.org" if self.path == "/inside" else "news.example.org"
            self.server.addresses[name] = "127.0.0.1"  # type: ignore[attr-defined]
            self.send_response(302)
            self.send_header("Location", f"https://{name}/secret")
            body = b""
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
        size = 2 << 30 if self.path == "/endless" else len(body)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body)
        try:
            while self.path == "/endless":
                self.wfile.write(b"<p>more of it" * 5000)
        except OSError:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have `https://news.example.org`, which this machine trusts for the time of the test."""
    authority = TestAuthority(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    server.daemon_threads = True
    server.socket = authority.server("news.example.org").wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    looked_up = dialer.socket.getaddrinfo
    addresses = server.addresses = {"news.example.org": _SITE}  # type: ignore[attr-defined]

    def look_up(name: str, *args: Any, **how: Any) -> list[Any]:
        whole = name.removesuffix(".")  # what only `public` allows is asked for with a final dot
        if whole not in addresses:
            return looked_up(name, *args, **how)
        return [(dialer.socket.AF_INET, dialer.socket.SOCK_STREAM, 6, "", (addresses[whole], 0))]

    def way(host: str, port: int) -> tuple[str, int]:
        return ("127.0.0.1", server.server_address[1]) if (host, port) == (_SITE, 443) else (host, port)

    monkeypatch.setattr(dialer.socket, "getaddrinfo", look_up)
    redirect(monkeypatch, way)
    bundle = tmp_path / "bundle.pem"
    usual = ssl.get_default_verify_paths().cafile
    bundle.write_bytes(authority.file.read_bytes() + (Path(usual).read_bytes() if usual else b""))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[IndexServer]:
    """Have an index with what the tool depends on, as it is installed here, and a cache with nothing in it."""
    with index_of(monkeypatch, *shipped.installed_for(shipped.project("tool-web")["dependencies"])) as index:
        monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
        yield index


async def fetch(folder: Path, path: str = "/", **options: Any) -> ToolCallOutcome:
    url = {"url": f"https://news.example.org{path}"}
    sources = SourceOptions(**options)
    return await call_once(
        "builtin:tool-web", "web_fetch", url, permissions=_PUBLIC, working_dir=folder, sources=sources
    )


@pytest.mark.usefixtures("site", "index")
async def test_the_web_tool_is_installed_from_its_lock_and_reads_public_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an installed Paddock was upgraded, and with it the tool, it is locked again."""
    installed, folder = tmp_path / "site-packages" / "builtin", tmp_path / "work"
    shutil.copytree(shipped.FOLDER / "tool-web", installed / "tool-web", ignore=shutil.ignore_patterns("tests"))
    monkeypatch.setattr(builtin, "_shipped_folder", lambda: installed)
    folder.mkdir()
    project = installed / "tool-web" / "pyproject.toml"
    wanted = project.read_text()
    project.write_text(wanted.replace('"lxml>=5.2"', '"h11"').replace('"httpx>=0.27,<1"', '"idna"'))
    lock = folder / LOCK_FILE
    failed = await fetch(folder)
    assert not failed.result.success  # that version did not name what it imports
    before = LockFile.read(lock).get("builtin:tool-web")
    assert before is not None and "httpx" not in {one.name for one in before.dependencies}
    project.write_text(wanted)
    refused = await fetch(folder, use=LockUse.LOCKED)
    assert not refused.result.success and LockFile.read(lock).get("builtin:tool-web") == before
    assert "needs other packages than `paddock.lock` has" in str(refused.error)

    upgraded = await fetch(folder)
    assert upgraded.result.success, upgraded.result.error
    assert upgraded.result.output["title"] == "News" and upgraded.result.output["content"] == "# It works"
    locked = LockFile.read(lock).get("builtin:tool-web")
    assert locked is not None and not (locked.commit or locked.tree)
    assert {"httpx", "lxml"} <= {one.name for one in locked.dependencies}
    assert all(one.hashes for one in locked.dependencies)

    endless = await fetch(folder, "/endless", offline=True, use=LockUse.LOCKED)  # all of it is here by now
    assert endless.result.success, endless.result.error
    assert "larger" in endless.result.output["truncated"]

    for path in ("/inside", "/rebound"):
        inside = await fetch(folder, path, offline=True)
        assert not inside.result.success and inside.result.error is not None
        assert inside.result.error["type"] == "refused" and "net: [public]" in inside.result.error["message"]
    assert any("127.0.0.1" in denial["reason"] for denial in inside.result.error["denials"])
