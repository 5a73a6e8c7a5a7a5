"""Get one page: bounded in bytes, time and redirects, for any server.

Each redirect is a request of its own, so the gate between this module and the network judges it anew. No cookie
outlives a call. Compressed data is decompressed here, a piece at a time, so that a small answer cannot become a large
one.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import httpx

from .failure import Failure
from .settings import Settings

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PIECE_BYTES = 64 * 1024
_EITHER_HEADER = 47  # of zlib's window: gzip or zlib, recognised by the first bytes
_SHOWN_CHARACTERS = 500  # of the page that comes with an error


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer: `body` is all of it, or its beginning if it `is_cut`."""

    url: str
    status: int
    content_type: str  # lower case, without parameters
    charset: str  # from the header, if it has one
    body: bytes
    is_cut: bool


class WebClient:
    """Gets pages according to `settings`; over `transport` instead of the network, if one is given."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        self._transport = transport

    async def get(self, url: str, accepts: Callable[[str], bool], params: Mapping[str, str] | None = None) -> Answer:
        """Return the page at `url`; a body whose type `accepts` does not include is not read.

        Raises:
            Failure: the page cannot be had; it contains the reason.
        """
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._get(_checked_url(url, params), accepts)
        except TimeoutError:
            raise Failure("timeout", f"No whole answer from {url} within {seconds} seconds.") from None

    async def _get(self, url: httpx.URL, accepts: Callable[[str], bool]) -> Answer:
        headers = {"User-Agent": self._settings.user_agent, "Accept-Encoding": "gzip", "Accept": "*/*"}
        # With a transport of its own, the client needs no TLS.
        verify = self._tls if self._transport is None else True
        async with httpx.AsyncClient(
            verify=verify, headers=headers, timeout=self._settings.timeout_seconds, transport=self._transport
        ) as client:
            for _ in range(self._settings.max_redirects + 1):
                try:
                    async with client.stream("GET", url, follow_redirects=False) as response:
                        location = response.headers.get("location", "")
                        if response.status_code in _REDIRECTS and location:
                            url = _redirected(url, location)
                            continue
                        return await self._answer(response, accepts)
                except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                    raise _unreachable(url, error) from None
        raise Failure(
            "too_many_redirects",
            f"More than {self._settings.max_redirects} redirects, lastly to {url}; give the address that is meant.",
        )

    async def _answer(self, response: httpx.Response, accepts: Callable[[str], bool]) -> Answer:
        content_type, _, parameters = response.headers.get("content-type", "").partition(";")
        content_type = content_type.strip().lower()
        if response.status_code < 400 and not accepts(content_type):
            size = response.headers.get("content-length", "")
            length = f" of {size} bytes" if size.isdigit() else ""
            raise Failure(
                "not_text",
                f"{response.url} is {content_type or 'of no stated type'}{length}, which is no text; nothing was read.",
                content_type=content_type,
            )
        body, is_cut = await self._body(response)
        charset = parameters.lower().partition("charset=")[2].split(";")[0].strip(" \"'")
        answer = Answer(str(response.url), response.status_code, content_type, charset, body, is_cut)
        if response.status_code >= 400:
            shown = body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace")[:_SHOWN_CHARACTERS]
            raise Failure(
                "http_status",
                f"{response.url} answered {response.status_code} {response.reason_phrase}.",
                status=response.status_code,
                content=shown,
            )
        return answer

    async def _body(self, response: httpx.Response) -> tuple[bytes, bool]:
        """Return as much of the body as may be read, decompressed, and whether there is more."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Failure("unknown_encoding", f"{response.url} is compressed as `{encoding}`, which was not asked for.")
        unpack = zlib.decompressobj(_EITHER_HEADER) if encoding not in ("", "identity") else None
        most, body, received = self._settings.max_bytes, bytearray(), 0
        async for piece in response.aiter_raw(_PIECE_BYTES):
            received += len(piece)
            try:
                body += piece if unpack is None else unpack.decompress(piece, most + 1 - len(body))
            except zlib.error:
                raise Failure("broken_encoding", f"{response.url} is not compressed as it says.") from None
            if len(body) > most or received > most:
                return bytes(body[:most]), True
            if unpack is not None and unpack.eof:
                break
        return bytes(body), False

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()  # heeds SSL_CERT_FILE


def _checked_url(text: str, params: Mapping[str, str] | None = None) -> httpx.URL:
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as error:
        raise Failure("invalid_url", f"`{text}` is no address of a page: {error}.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise Failure("invalid_url", f"`{text}` must begin with http:// or https:// and name a host.")
    if url.userinfo:
        raise Failure("invalid_url", "Addresses with a user or password in them are not fetched.")
    return url.copy_with(fragment=None) if params is None else url.copy_merge_params(dict(params))


def _redirected(url: httpx.URL, location: str) -> httpx.URL:
    try:
        target = url.join(location)
    except (httpx.InvalidURL, ValueError):
        raise Failure("bad_redirect", f"{url} redirects to what is no address.") from None
    if target.scheme not in ("http", "https") or not target.host or target.userinfo:
        raise Failure("bad_redirect", f"{url} redirects to {target.scheme}:, which is not followed.")
    return target.copy_with(fragment=None)


def _unreachable(url: httpx.URL, error: Exception) -> Failure:
    where = f"{url.host}{f':{url.port}' if url.port else ''}"
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL) or "redirect" in str(error).lower():
        return Failure("bad_redirect", f"{url} redirects to what is no address of a page.")
    if isinstance(error, httpx.ProxyError):
        if "403" in str(error):
            return Failure(
                "refused",
                f"This module may not connect to {where}. A grant allows it: `permissions: {{net: [public]}}` for "
                f"every public host at ports 443 and 80, or the host and port by name. Private and local addresses "
                f"are granted one by one.",
            )
        return Failure("unreachable", f"{where} cannot be reached: {error}.")
    if isinstance(error, httpx.RemoteProtocolError | httpx.DecodingError):
        return Failure("bad_answer", f"{where} did not answer in HTTP, or broke off: {error}.")
    hint = " If other hosts are reached, check the name; else this module may lack the grant `net`."
    return Failure("unreachable", f"{where} cannot be reached: {str(error) or type(error).__name__}.{hint}")
