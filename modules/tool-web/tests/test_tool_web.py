"""The web tools: what they return, what they refuse to read, and that no server makes them read on without end."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_web import Settings, WebClient, WebFetch, WebSearch, mount

pytestmark = pytest.mark.anyio

Respond = Callable[[httpx.Request], httpx.Response]


class Web:
    """A web of one handler, which is called instead of any server; keeps what was asked for."""

    def __init__(self, respond: Respond, **settings: Any) -> None:
        self.asked: list[httpx.Request] = []
        self._respond = respond
        client = WebClient(Settings.of(settings), httpx.MockTransport(self._answer))
        self.fetch = WebFetch(client)
        self.search = WebSearch(client, settings.get("search_url", "http://search.example/search"))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self._respond(request)

    async def page(self, url: str = "https://example.org/page", **arguments: Any) -> ToolResult:
        return await self.fetch.execute({"url": url, **arguments})


def page(body: bytes | str, content_type: str = "text/html", *, status: int = 200, **headers: str) -> Respond:
    """Return what answers every request with this."""
    content = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def respond(request: httpx.Request) -> httpx.Response:
        # As a stream: the client is to see what is on the wire, and not what httpx made of it.
        return httpx.Response(status, headers={"content-type": content_type, **named}, stream=_Pieces(content))

    return respond


class _Pieces(httpx.AsyncByteStream):
    """A body in pieces; `endless` ones go on with the last, and say how many there were."""

    def __init__(self, body: bytes, *, endless: bool = False) -> None:
        self.sent = 0
        self._body = body
        self._endless = endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), 1 << 16):
            self.sent += 1
            yield self._body[at : at + (1 << 16)]
        while self._endless:
            self.sent += 1
            yield self._body
            await asyncio.sleep(0)


def failure(result: ToolResult) -> dict[str, Any]:
    assert not result.success and result.error is not None
    return dict(result.error)


@pytest.mark.parametrize("config", [None, {}, {"search_url": None}, {"search_url": "http://127.0.0.1:8888/search"}])
async def test_without_an_endpoint_there_is_no_search(config: dict[str, Any] | None) -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, config)
    has_endpoint = config is not None and config.get("search_url")
    assert set(coordinator.get("tools")) == {"web_fetch", *(["web_search"] if has_endpoint else [])}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"serch_url": "x"}, "no setting `serch_url`"),
        ({"search_url": "ftp://x"}, "`search_url` must begin with http"),
        ({"search_url": 1}, "`search_url` must be a line of text"),
        ({"max_bytes": 0}, "`max_bytes` must be a whole number of at least 1"),
        ({"max_redirects": -1}, "`max_redirects` must be a whole number of at least 0"),
        ({"timeout_seconds": True}, "`timeout_seconds` must be a whole number"),
    ],
)
async def test_a_setting_that_is_wrong_stops_the_mount(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="tool-web") as raised:
        await mount(MockCoordinator(), config)
    assert said in str(raised.value)


async def test_a_page_is_returned_as_readable_text() -> None:
    html = """<!doctype html><html><head><title>The  news</title><style>p {}</style></head><body>
        <h1>Head <b>line</b></h1><p>First<br>second with a <a href="/more?a=1#b">link</a></p><script>alert(1)</script>
        <ul><li>one<li>two</ul><pre>a\n    b</pre><!-- no --><img src=x alt="a map"><p>caf\u00e9</p>"""
    result = await Web(page(html)).page()
    output = result.output
    assert result.success and output["title"] == "The news"
    assert output["content"].split("\n\n") == [
        "# Head line",
        "First\nsecond with a [link](https://example.org/more?a=1#b)",
        "- one\n- two",
        "a\n    b",
        "[image: a map]",
        "caf\u00e9",
    ]
    assert output["total_characters"] == len(output["content"]) and "next_offset" not in output


async def test_a_long_page_is_read_in_parts_of_one_fetch() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    web = Web(page(text, "text/plain"))
    parts, offset = [], 0
    while True:
        output = (await web.page(offset=offset, limit=9_000)).output
        parts.append(output["content"])
        if "next_offset" not in output:
            break
        offset = output["next_offset"]
    assert "".join(parts) == text and len(parts) == 6
    assert len(web.asked) == 1
    assert failure(await web.page(offset=len(text)))["type"] == "invalid_input"
    await web.page()
    assert len(web.asked) == 2  # from the beginning, it is fetched anew


async def test_a_page_without_end_is_cut_and_said_to_be() -> None:
    stream = _Pieces(b"x" * (1 << 16), endless=True)
    headers = {"content-type": "text/plain"}
    web = Web(lambda request: httpx.Response(200, headers=headers, stream=stream), max_bytes=1 << 20)
    output = (await web.page()).output
    assert output["total_characters"] == 1 << 20 and "larger" in output["truncated"]
    assert stream.sent < 20


@pytest.mark.parametrize("times", [1, 2])
async def test_what_is_compressed_takes_no_more_room_than_other_pages(times: int) -> None:
    body = b"<p>" + b"a" * (16 << 20)
    for _ in range(times):
        body = gzip.compress(body)
    web = Web(page(body, "text/plain", content_encoding="gzip"), max_bytes=1 << 20)
    result = await web.page()
    if times == 1:
        assert result.output["truncated"] and result.output["total_characters"] == 1 << 20
    else:
        assert failure(result)["type"] == "not_text"  # one layer is taken off; in it is no text


@pytest.mark.parametrize("how", ["gzip", "deflate", "identity"])
async def test_a_compressed_page_is_read(how: str) -> None:
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[how](b"hello " * 1000)
    output = (await Web(page(packed, "text/plain", content_encoding=how)).page()).output
    assert output["content"] == "hello " * 1000 and "truncated" not in output


@pytest.mark.parametrize(("how", "kind"), [("br", "unknown_encoding"), ("gzip", "broken_encoding")])
async def test_a_page_that_is_not_compressed_as_agreed_is_a_failure(how: str, kind: str) -> None:
    assert failure(await Web(page("plain", content_encoding=how)).page())["type"] == kind


@pytest.mark.parametrize("content_type", ["application/pdf", "image/png", "video/mp4", "application/octet-stream"])
async def test_what_is_no_text_is_not_read_and_said_what_it_is(content_type: str) -> None:
    stream = _Pieces(b"\x89PNG")
    headers = {"content-type": content_type, "content-length": "2147483648"}
    error = failure(await Web(lambda request: httpx.Response(200, headers=headers, stream=stream)).page())
    assert (error["type"], error["content_type"], stream.sent) == ("not_text", content_type, 0)
    assert content_type in error["message"] and "2147483648 bytes" in error["message"]


async def test_what_is_binary_though_said_to_be_text_is_a_failure() -> None:
    assert failure(await Web(page(b"\x7fELF\0\0\0\1", "text/plain")).page())["type"] == "not_text"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("caf\u00e9 \u65e5".encode(), "text/plain; charset=utf-8"),
        ("caf\u00e9 \u65e5".encode(), "text/plain"),
        ("\ufeffcaf\u00e9 \u65e5".encode(), "text/plain; charset=iso-8859-1"),
        ("caf\u00e9 \u65e5".encode("utf-16"), "text/plain"),
        ("caf\u00e9 \u65e5".encode("gb18030"), 'text/plain; charset="GB18030"'),
        ("caf\u00e9 \u65e5".encode(), "text/plain; charset=unicode_escape"),
        ("<meta charset=euc-jp><p>caf\u00e9 \u65e5".encode("euc-jp"), "text/html"),
        ("<?xml version='1.0' encoding='gb18030'?><a>caf\u00e9 \u65e5</a>".encode("gb18030"), "text/xml"),
    ],
)
async def test_characters_are_those_that_were_meant(body: bytes, content_type: str) -> None:
    assert "caf\u00e9 \u65e5" in (await Web(page(body, content_type)).page()).output["content"]


async def test_latin_text_without_a_charset_is_read_as_browsers_do() -> None:
    body = "na\u00efve \u201cquotes\u201d".encode("cp1252")
    assert (await Web(page(body, "text/plain")).page()).output["content"] == "na\u00efve \u201cquotes\u201d"


@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.api+json", "application/atom+xml"])
async def test_data_is_returned_as_it_is(content_type: str) -> None:
    assert (await Web(page('{"a": "<b>"}', content_type)).page()).output["content"] == '{"a": "<b>"}'


async def test_redirects_are_followed_one_by_one_and_the_end_is_named() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/page":
            return httpx.Response(301, headers={"location": "//other.example.net/a#part"})
        if request.url.path == "/a":
            return httpx.Response(307, headers={"location": "b"})
        return page("the end", "text/plain")(request)

    web = Web(respond)
    output = (await web.page()).output
    assert (output["url"], output["content"]) == ("https://other.example.net/b", "the end")
    assert [str(one.url) for one in web.asked][1:] == ["https://other.example.net/a", "https://other.example.net/b"]


@pytest.mark.parametrize("most", [0, 5])
async def test_redirects_without_end_are_a_failure(most: int) -> None:
    web = Web(lambda request: httpx.Response(302, headers={"location": f"{request.url.path}x"}), max_redirects=most)
    assert failure(await web.page())["type"] == "too_many_redirects"
    assert len(web.asked) == most + 1


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.org/", "javascript:1", "https://u:p@a.example/"]
)
async def test_a_redirect_to_what_is_no_page_is_not_followed(target: str) -> None:
    web = Web(lambda request: httpx.Response(302, headers={"location": target}))
    assert failure(await web.page())["type"] == "bad_redirect"


@pytest.mark.parametrize(
    "url", ["example.org", "file:///etc/passwd", "https://", "https://u:p@example.org/", "https:///path"]
)
async def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    web = Web(page("x"))
    assert failure(await web.page(url))["type"] == "invalid_url"
    assert web.asked == []


@pytest.mark.parametrize(
    "arguments",
    [{}, {"url": 1}, {"url": " "}, {"url": "http://a.example", "offset": -1}, {"url": "http://a.example", "limit": 0}],
)
async def test_input_that_is_wrong_is_a_failure(arguments: dict[str, Any]) -> None:
    assert failure(await Web(page("x")).fetch.execute(arguments))["type"] == "invalid_input"


async def test_an_error_of_the_server_is_a_failure_with_its_words() -> None:
    web = Web(page("there is no such page", "text/plain", status=404))
    error = failure(await web.page())
    assert (error["type"], error["status"], error["content"]) == ("http_status", 404, "there is no such page")


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (httpx.ProxyError("403 Forbidden"), "refused", "net: [public]"),
        (httpx.ProxyError("504 Gateway Timeout"), "unreachable", "504"),
        (httpx.ConnectError("Name or service not known"), "unreachable", "grant `net`"),
        (httpx.RemoteProtocolError("illegal"), "bad_answer", "did not answer in HTTP"),
        (ConnectionResetError(104, "Connection reset by peer"), "unreachable", "reset by peer"),
    ],
)
async def test_what_stood_in_the_way_is_said_with_what_to_do(raised: Exception, kind: str, said: str) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise raised

    error = failure(await Web(respond).page())
    assert error["type"] == kind and said in error["message"]


async def test_a_server_that_never_ends_its_answer_is_given_up() -> None:
    class Silent(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"a"
            await asyncio.Event().wait()

    headers = {"content-type": "text/plain"}
    web = Web(lambda request: httpx.Response(200, headers=headers, stream=Silent()), timeout_seconds=1)
    assert failure(await web.page())["type"] == "timeout"


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 50_000,
        "<div>" * 20_000 + "</span>" * 20_000,
        "<!--" * 50_000,
        "<p " + "a=b " * 20_000,
        "<b><p>" * 20_000,
        f"<pre>{' ' * 300_000}",
        f"<title>{'&amp;' * 300_000}",
        f"<base href='http://x/{'y/' * 200_000}'>{'<a href=q>t</a>' * 20_000}",
    ],
)
async def test_a_page_made_to_be_hard_to_read_is_read_or_given_up(html: str) -> None:
    assert (await Web(page(f"<p>begins</p>{html}")).page()).success


@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_links_add_no_more_to_a_page_than_its_length(scheme: str) -> None:
    html = f"<base href='{scheme}://x/{'y/' * 900}'><a href=http://first/>one</a>{'<a href=q>t</a>' * 20_000}"
    output = (await Web(page(html)).page()).output
    assert output["content"].startswith("[one](http://first/)")
    assert output["total_characters"] < 2 * len(html)


async def test_a_title_without_end_is_cut() -> None:
    output = (await Web(page(f"<title>A title {'and more ' * 1000}</title><p>text")).page()).output
    assert output["title"].startswith("A title and more ") and len(output["title"]) == 500


async def test_a_search_returns_titles_addresses_and_summaries() -> None:
    found = [
        {"title": "One", "url": "https://one.example", "content": "about  one", "engine": "x"},
        {"title": None, "url": "https://two.example", "snippet": "y" * 900},
        {"title": "no address"},
        "nothing",
        {"title": "Three", "url": "https://three.example"},
    ]
    web = Web(page(json.dumps({"results": found}), "application/json"), search_url="http://s.example/search?lang=en")
    output = (await web.search.execute({"query": "a & b", "limit": 2})).output
    assert dict(web.asked[0].url.params) == {"lang": "en", "q": "a & b", "format": "json"}
    assert output["results"][0] == {"title": "One", "url": "https://one.example", "summary": "about one"}
    assert len(output["results"]) == 2 and len(output["results"][1]["summary"]) == 500


@pytest.mark.parametrize(
    ("respond", "kind"),
    [
        (page("<html>", "text/html"), "not_text"),
        (page("[]", "application/json"), "bad_answer"),
        (page('{"results": {}}', "application/json"), "bad_answer"),
        (page("[" * 100_000, "application/json"), "bad_answer"),
        (page("json is off", "text/plain", status=403), "http_status"),
    ],
)
async def test_an_endpoint_that_does_not_answer_in_json_is_a_failure(respond: Respond, kind: str) -> None:
    error = failure(await Web(respond).search.execute({"query": "x"}))
    assert error["type"] == kind
    assert kind == "bad_answer" or "SearXNG" in error["message"]
