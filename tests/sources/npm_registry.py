"""A registry of npm packages on loopback, with archives that the tests write by themselves.

What is published can be changed afterwards: the bytes of an archive, with the hash that is told of them or without.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote


def archive(files: Mapping[str, str | bytes | tarfile.TarInfo], *, around: str = "package/") -> bytes:
    """Return the archive of a package; a member that is no regular file is given as its header."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, written in files.items():
            content = written.encode() if isinstance(written, str) else written if isinstance(written, bytes) else b""
            member = written if isinstance(written, tarfile.TarInfo) else tarfile.TarInfo(around + path)
            member.size = len(content) or member.size
            member.mode = 0o755 if path.endswith(".sh") else 0o644
            tar.addfile(member, io.BytesIO(content) if content else None)
    return buffer.getvalue()


def integrity(content: bytes) -> str:
    """Return the hash of an archive in npm's notation."""
    return f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"


class NpmRegistry:
    """Serves until its block is left; `requests` are the paths that were asked for."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.manifests: dict[str, dict[str, dict[str, Any]]] = {}
        self.archives: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def add(self, name: str, version: str = "1.0.0", files: Mapping[str, Any] | None = None, **facts: Any) -> None:
        """Publish a package; `facts` are of its package.json, and of what the registry says about it."""
        manifest = {"name": name, "version": version, **facts}
        content = archive({"package.json": json.dumps(manifest), **(files or {})})
        self.publish(manifest, content)

    def publish(self, manifest: dict[str, Any], content: bytes, told: str | None = None) -> None:
        """Publish any bytes as the archive of a package; `told` is the hash that the registry tells, empty for none."""
        name, version = manifest["name"], manifest["version"]
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.archives[path] = content
        hashes = {"shasum": hashlib.sha1(content).hexdigest()}
        hashes |= {} if told == "" else {"integrity": told or integrity(content)}
        dist = {"tarball": self.url + path, **hashes}
        self.manifests.setdefault(name, {})[version] = {**manifest, "dist": dist}

    def answer(self, path: str) -> bytes | None:
        """Return what there is at a path."""
        if path in self.archives:
            return self.archives[path]
        versions = self.manifests.get(path.removeprefix("/"))
        if versions is None:
            return None
        said = {"name": path.removeprefix("/"), "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}
        return json.dumps(said).encode()

    def __enter__(self) -> NpmRegistry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(registry: NpmRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            registry.requests.append(path)
            content = registry.answer(path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
