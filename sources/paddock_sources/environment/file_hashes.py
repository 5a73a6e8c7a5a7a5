"""Print which files an index has of some projects, with their hashes and addresses.

This is a program of its own that runs in a sandbox which reaches the index. It parses an index's answers there and
returns only names, hashes and addresses. It needs only the standard library. Standard input is JSON: `url`, `ca_file`,
`names`. Standard output is JSON: a list of `[filename, hash, address]` for each name; the hash is empty if the index
has none.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_MAX_PAGE_BYTES = 64 << 20  # the largest on PyPI are below 10 MiB
_TIMEOUT = 30.0  # seconds without a byte
_AT_ONCE = 6


def main() -> None:
    order = json.load(sys.stdin)
    context = ssl.create_default_context(cafile=order["ca_file"] or None)
    opener = build_opener(HTTPSHandler(context=context), _SameHost())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        files = pool.map(lambda name: _files(opener, order["url"], name), order["names"])
        found = dict(zip(order["names"], files, strict=True))
    json.dump(found, sys.stdout)


def _files(opener: Any, url: str, name: str) -> list[tuple[str, str, str]]:
    parts = urlsplit(url)
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + f"/{name}/", "", ""))
    request = Request(bare, headers={"Accept": _ACCEPT})  # noqa: S310 - the scheme was checked
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    try:
        with opener.open(request, timeout=_TIMEOUT) as answer:
            content = answer.read(_MAX_PAGE_BYTES + 1)
            is_json = "json" in answer.headers.get("Content-Type", "")
            page = answer.geturl()
    except HTTPError as error:
        if error.code == 404:
            return []
        raise SystemExit(f"failed to fetch the page of {name}: HTTP error {error.code}: {error.reason}") from None
    except URLError as error:
        raise SystemExit(f"failed to fetch the page of {name}: {error.reason}") from None
    if len(content) > _MAX_PAGE_BYTES:
        raise SystemExit(f"the index has more to say of {name} than is read")
    return _from_json(content, page) if is_json else _from_html(content, page)


class _SameHost(HTTPRedirectHandler):
    """Follows an index only to itself."""

    def redirect_request(
        self,
        req: Any,
        fp: Any,
        code: Any,
        msg: Any,
        headers: Any,
        newurl: str,
    ) -> Any:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        redirected = super().redirect_request(req, fp, code, msg, headers, newurl)
        if redirected is not None and req.has_header("Authorization"):
            redirected.add_unredirected_header("Authorization", req.get_header("Authorization"))
        return redirected


def _from_json(content: bytes, page: str) -> list[tuple[str, str, str]]:
    return [
        (str(file["filename"]), str(file.get("hashes", {}).get("sha256", "")), urljoin(page, str(file["url"])))
        for file in json.loads(content)["files"]
    ]


def _from_html(content: bytes, page: str) -> list[tuple[str, str, str]]:
    found = _Page(page)
    found.feed(content.decode("utf-8", "replace"))
    return found.files


class _Page(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.files: list[tuple[str, str, str]] = []
        self._base = address

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "base" and href:
            self._base = urljoin(self._base, href)
        elif tag == "a" and href:
            path, fragment = urldefrag(href)
            kind, _, digest = fragment.partition("=")
            name = unquote(urlsplit(path).path.rpartition("/")[2])
            self.files.append((name, digest if kind == "sha256" else "", urljoin(self._base, path)))


if __name__ == "__main__":
    main()
