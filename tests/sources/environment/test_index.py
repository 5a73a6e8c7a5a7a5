from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from failures import failing
from paddock_sources.environment.index import Index
from paddock_sources.settings import IndexSettings
from support.rows import each_row


def test_without_a_word_it_is_the_usual_one_with_the_host_of_its_files() -> None:
    index = Index.of({})
    assert (index.url, index.hosts) == ("https://pypi.org/simple", ("pypi.org:443", "files.pythonhosted.org:443"))


@each_row("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_what_pip_and_uv_are_told_counts_here_too(name: str) -> None:
    index = Index.of({name: "https://mirror.example/root/simple/"})
    assert (index.url, index.hosts) == ("https://mirror.example/root/simple", ("mirror.example:443",))


def test_settings_win_over_variables_and_name_further_hosts() -> None:
    settings = IndexSettings("https://own.example:8443/simple", ("files.example:443",))
    index = Index.of({"PIP_INDEX_URL": "https://mirror.example/simple"}, settings)
    assert (index.url, index.hosts) == ("https://own.example:8443/simple", ("own.example:8443", "files.example:443"))


def test_hosts_of_settings_count_for_the_index_of_a_variable() -> None:
    index = Index.of({"PIP_INDEX_URL": "https://mirror.example/s"}, IndexSettings("", ("files.example:443",)))
    assert index.hosts == ("mirror.example:443", "files.example:443")


def test_further_indexes_are_not_mixed_in() -> None:
    assert Index.of(
        {"PIP_EXTRA_INDEX_URL": "https://evil.example/simple", "UV_INDEX": "https://evil.example"}
    ).hosts == (
        "pypi.org:443",
        "files.pythonhosted.org:443",
    )


def test_a_name_that_uv_gives_an_index_is_none_of_its_address() -> None:
    assert Index.of({"UV_DEFAULT_INDEX": "corp=https://mirror.example/simple"}).hosts == ("mirror.example:443",)


@each_row(
    ("url", "host"),
    [
        ("http://127.0.0.1:8000/simple", "127.0.0.1:8000"),
        ("http://localhost/simple", "localhost:80"),
        ("http://[::1]:8000/simple", "[::1]:8000"),
    ],
)
def test_only_on_this_machine_an_index_needs_no_encryption(url: str, host: str) -> None:
    assert Index.of({"PIP_INDEX_URL": url}).hosts == (host,)
    with failing("IndexUrlError", "not encrypted"):
        Index.of({"PIP_INDEX_URL": "http://mirror.example/simple"})


@each_row(
    "url",
    [
        "ftp://host/simple",
        "file:///srv/simple",
        "https:///simple",
        "https://host:0x/simple",
        "https://host/a b",
        "https://host/\x1b[31m",
        "https://host/simple?x=1",
        "https://host/simple#x",
        "--index-url",
        "https://" + "h" * 5000,
        "https://[::1/simple",
    ],
)
def test_what_is_no_address_of_an_index_is_refused_by_where_it_was_written(url: str) -> None:
    with failing("IndexUrlError", "PIP_INDEX_URL") as caught:
        Index.of({"PIP_INDEX_URL": url})
    assert str(caught.value).isprintable()


def test_a_password_is_never_shown() -> None:
    index = Index.of({"PIP_INDEX_URL": "https://me:p%40ss-word@mirror.example/simple"})
    assert index.shown == "https://mirror.example/simple"
    assert "ss-word" not in repr(index)
    told = index.without_secrets("GET https://me:p%40ss-word@mirror.example/ with p@ss-word")
    assert "ss-word" not in told
    with failing("IndexUrlError") as caught:
        Index.of({"PIP_INDEX_URL": "https://me:s3cret@mirror.example/simple?x"})
    assert "s3cret" not in str(caught.value)


def test_authorities_are_those_of_the_operator(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    assert Index.of({"SSL_CERT_FILE": str(tmp_path / "ca.pem")}).ca_file == tmp_path / "ca.pem"
    for missing in ("ca.pem", str(tmp_path / "missing.pem"), ""):
        assert Index.of({"SSL_CERT_FILE": missing}).ca_file is None


def test_a_registry_of_npm_is_the_public_one_or_that_of_the_settings() -> None:
    public = Index.of_npm({"npm_config_registry": "https://x.example"}, IndexSettings())
    mine = IndexSettings("https://n/a/")
    assert (public.url, public.hosts) == ("https://registry.npmjs.org", ("registry.npmjs.org:443",))
    registry = Index.of_npm({}, replace(mine, hosts=("files.example:8443",)))
    assert (registry.url, registry.hosts) == ("https://n/a", ("n:443", "files.example:8443"))
    assert registry.serves("https://n/x.tgz") and registry.serves("https://files.example:8443/x")
    for url in ("https://files.example/x", "http://n/x", "git+https://n/x", "https://n:x/", "n", "https://n/x?y", ""):
        assert not registry.serves(url), url
    with failing("IndexUrlError", r"`registry` under `\[npm\]` names no package index"):
        Index.of_npm({}, IndexSettings("http://n.example"))
