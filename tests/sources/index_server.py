"""A package index on loopback, with wheels and source archives that the tests write by themselves.

It speaks the simple API (PEP 503, and PEP 691 where JSON is preferred), with hashes. `user:password` can be asked for,
and a file's bytes be changed after its hash was published.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

_JSON = "application/vnd.pypi.simple.v1+json"


def wheel(
    name: str,
    version: str,
    files: Mapping[str, str | bytes] | None = None,
    *,
    requires: Sequence[str] = (),
    entry_points: str = "",
    requires_python: str = "",
) -> bytes:
    """Return the bytes of a pure wheel; without `files` it is one package of that name that tells its version.

    A file whose name ends in `.sh` may be executed.
    """
    escaped = name.replace("-", "_")
    info = f"{escaped}-{version}.dist-info"
    content = dict(files) if files is not None else {f"{escaped}/__init__.py": f"__version__ = {version!r}\n"}
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    content[f"{info}/METADATA"] = "\n".join(lines) + "\n"
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points
    record = "".join(f"{path},{_record_hash(_bytes(text))},{len(_bytes(text))}\n" for path, text in content.items())
    content[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in content.items():
            member = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            member.external_attr = (0o100755 if path.endswith(".sh") else 0o100644) << 16
            archive.writestr(member, _bytes(text))
    return buffer.getvalue()


def sdist(name: str, version: str, files: Mapping[str, str]) -> bytes:
    """Return the bytes of a source archive with `files` in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {"PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", **files}.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


class IndexServer:
    """Serves until its block is left; `requests` are the paths that were asked for. Another may have its files."""

    def __init__(self, *, credentials: str = "", file_host: str = "") -> None:
        self._file_host = file_host
        self.requests: list[str] = []
        self._credentials = credentials
        self._files: dict[str, dict[str, bytes]] = {}
        self._hashes: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://{self.host}/simple"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def add_wheel(self, name: str, version: str, files: Mapping[str, str | bytes] | None = None, **facts: Any) -> str:
        """Publish a wheel made of these and return its hash."""
        tag = facts.pop("tag", "py3-none-any")
        return self.add(name, f"{name.replace('-', '_')}-{version}-{tag}.whl", wheel(name, version, files, **facts))

    def add_sdist(self, name: str, version: str, files: Mapping[str, str]) -> str:
        """Publish a source archive and return its hash."""
        return self.add(name, f"{name}-{version}.tar.gz", sdist(name, version, files))

    def add_sdist_that_runs(self, name: str, version: str, trap: Path) -> str:
        """Publish a source archive that makes the file `trap` as soon as anything of it runs, without setuptools."""
        files = {
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
            "backend.py": f"open({str(trap)!r}, 'w').write('ran')\n",
            "setup.py": f"open({str(trap)!r}, 'w').write('ran')\n",
        }
        return self.add_sdist(name, version, files)

    def add(self, name: str, filename: str, content: bytes) -> str:
        """Publish any bytes under a file name and return their hash."""
        self._files.setdefault(name, {})[filename] = content
        self._hashes[filename] = hashlib.sha256(content).hexdigest()
        return "sha256:" + self._hashes[filename]

    def content(self, name: str, filename: str) -> bytes:
        """Return the bytes of a published file."""
        return self._files[name][filename]

    def hashes_of(self, name: str, version: str) -> tuple[str, ...]:
        """Return the hashes of all files of a version, sorted."""
        stems = (f"{name.replace('-', '_')}-{version}-", f"{name}-{version}.tar.gz")
        return tuple(sorted(f"sha256:{self._hashes[file]}" for file in self._files[name] if file.startswith(stems)))

    def replace(self, name: str, filename: str, content: bytes, *, keep_hash: bool = True) -> None:
        """Serve other bytes for a file; by default its published hash stays as it was."""
        self._files[name][filename] = content
        if not keep_hash:
            self._hashes[filename] = hashlib.sha256(content).hexdigest()

    def answer(self, path: str, accept: str, authorization: str) -> tuple[int, str, bytes]:
        """Return status, type and content for a request."""
        self.requests.append(path)
        if self._credentials and authorization != "Basic " + base64.b64encode(self._credentials.encode()).decode():
            return 401, "text/plain", b"who are you?"
        room, _, rest = path.strip("/").partition("/")
        if room == "files":
            found = next((files[rest] for files in self._files.values() if rest in files), None)
            return (200, "application/octet-stream", found) if found is not None else (404, "text/plain", b"no file")
        if room != "simple" or rest not in self._files:
            return 404, "text/plain", b"no project"
        files = [
            (name, f"http://{self._file_host or self.host}/files/{name}", self._hashes[name])
            for name in self._files[rest]
        ]
        if _JSON in accept:
            listing = [{"filename": name, "url": url, "hashes": {"sha256": digest}} for name, url, digest in files]
            page = json.dumps({"meta": {"api-version": "1.0"}, "name": rest, "files": listing})
            return 200, _JSON, page.encode()
        links = [f'<a href="{html.escape(url)}#sha256={digest}">{name}</a><br>' for name, url, digest in files]
        return 200, "text/html", ("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>").encode()

    def __enter__(self) -> IndexServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()


def _handler(index: IndexServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(with_body=True)

        def do_HEAD(self) -> None:
            self._serve(with_body=False)

        def _serve(self, *, with_body: bool) -> None:
            headers = self.headers
            status, kind, body = index.answer(self.path, headers.get("Accept", ""), headers.get("Authorization", ""))
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _record_hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
