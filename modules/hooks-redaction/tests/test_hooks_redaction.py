"""What is replaced in events, what is left, in which events, and that no text makes it slow."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from amplifier_core import events
from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_redaction import RedactionHook, Redactor, Settings, mount
from amplifier_module_hooks_redaction.redactor import MAX_DEPTH
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

_ALL = Redactor((*Settings().found, "ip"))
_PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx0\nabc+/def==\n-----END RSA PRIVATE KEY-----"
_LOCKED_PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1F\n\nMIIE\n"
    "-----END RSA PRIVATE KEY-----"
)
# Joined here, so that nothing that looks for keys in files finds one.
_SECRETS = {
    "AKIA" + "IOSFODNN7EXAMPLE": "aws",
    "ghp_" + "a1B2" * 9: "github",
    "github_pat_" + "11ABCDEFG0" * 5: "github",
    "glpat-" + "a1B2c3D4e5F6g7H8i9J0": "gitlab",
    "sk-proj-" + "a1B2_c3-D4" * 5: "openai",
    "sk-" + "a1" * 600: "openai",
    "sk-ant-api03-" + "a1B2_c3-D4" * 9: "anthropic",
    "xoxb-" + "123456789012-abcdefABCDEF": "slack",
    "AIza" + "a1B2c3D" * 5: "google",
    "sk_live_" + "a1B2" * 6: "stripe",
    "hf_" + "aB" * 17: "huggingface",
    "npm_" + "a1B2" * 9: "npm",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1g": "jwt",
    _PEM: "private_key",
    _LOCKED_PEM: "private_key",
    _PEM.replace("\n", "\\n"): "private_key",
}
_PII = {
    "jane.doe+x@mail.example.org": "email",
    "4111 1111 1111 1111": "card",
    "5500-0055-5555-5559": "card",
    "378282246310005": "card",
    "3782 822463 10005": "card",
    "DE89 3704 0044 0532 0130 00": "iban",
    "GB82WEST12345698765432": "iban",
    "+49 (30) 1234-5678": "phone",
    "0049 30 12345678": "phone",
    "+14155552671": "phone",
    "(415) 555-2671": "phone",
    "415-555-2671": "phone",
    "192.168.10.5": "ip",
    "fe80::1ff:fe23:4567:890a": "ip",
}


@pytest.mark.parametrize(("found", "name"), [*_SECRETS.items(), *_PII.items()])
def test_a_category_is_replaced_wherever_it_stands(found: str, name: str) -> None:
    phrase = "see {}!" if name == "private_key" else "see {}, it is"
    places = ["{}", phrase, "see: ({})", '"{}"', "{}\nCODE", "x={}&y=1"]
    assert [_ALL.text(place.format(found)) for place in places] == [
        place.format(f"[REDACTED:{name}]") for place in places
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", "password=[]"),
        ("DB_PASSWORD=swordfish next", "DB_PASSWORD=[] next"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "[]", "n": 1}'),
        (r"{\"api_key\": \"abc\", \"n\": 1}", r"{\"api_key\": \"[]\", \"n\": 1}"),
        ("client_secret: 'it is long'", "client_secret: '[]'"),
        ('password="cut off', 'password="[]'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = []"),
        ("the password: hunter2000", "the password: []"),
        ("?token=" + "a" * 5000 + "&x=1", "?token=[]&x=1"),
        ("--password=hunter", "--password=[]"),
    ],
)
def test_what_is_assigned_to_the_name_of_a_secret_is_replaced(text: str, expected: str) -> None:
    assert _ALL.text(text) == expected.replace("[]", "[REDACTED:password]")


def test_credentials_of_requests_and_addresses_are_replaced() -> None:
    assert _ALL.text("Authorization: Bearer abcdef0123456789xyz") == "Authorization: Bearer [REDACTED:bearer]"
    assert _ALL.text("postgres://me:hunter2@db:5432/x") == "postgres://me:[REDACTED:url_password]@db:5432/x"


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token(user)", "password: str", "password=args.password", "password = settings['x']",
        "token=$TOKEN",
        'password="${SECRET}"', "max_tokens: 4096", "the secret: be kind to people", "PWD=/home/me",
        "token_count=12345",
        "git@github.com:org/repo.git", "123e4567-e89b-12d3-a456-426614174000", "2024-01-02T03:04:05+00:00",
        "4111 1111 1111 1112", "1700000000000000000", "0.4111111111111111", "DE89 3704 9044 0532 0130 01", "a@b",
        "@app.get",
        "task-with-a-very-long-name-0123456789", "sk-loading-animation-container", "10:20:30", "std::vector", "1.2.3",
        "call_4111111111111111", "Basic understanding-of-something", "https://host:8080/path", "ratio 3:4", "",
        "-----BEGIN PUBLIC KEY-----", "eyJ0", "v1.2.3.4.5",
    ],
)  # fmt: skip
def test_what_only_looks_alike_is_left(text: str) -> None:
    assert _ALL.text(text) == text


def test_several_in_one_text_are_replaced_and_what_overlaps_once() -> None:
    text = "a@example.org, 4111111111111111 and password=jane@example.org; 1 4111 1111 1111 1111"
    assert _ALL.text(text) == ("[REDACTED:email], [REDACTED:card] and password=[REDACTED:password]; 1 [REDACTED:card]")


@pytest.mark.parametrize(
    "key", ["api_key", "apiKey", "X-Api-Key", "password", "clientSecret", "Authorization", "cookie"]
)
def test_texts_under_the_name_of_a_secret_are_replaced_at_any_depth(key: str) -> None:
    data = {"a": [{key: ["k-1", {"b": "k-2"}, 5, None, ""]}], "max_tokens": 7}
    assert _ALL.event(data) == {
        "a": [{key: ["[REDACTED:named]", {"b": "[REDACTED:named]"}, 5, None, ""]}], "max_tokens": 7
    }  # fmt: skip


def test_ids_time_keys_numbers_and_shape_stay() -> None:
    card = "4111111111111111"
    data = {
        "session_id": f"{card}", "parent_id": None, "turn_id": "a@example.org", "timestamp": "+4930123456789",
        "tool_call_id": "call_1", "iteration": 3, card: 1, "number": 4111111111111111, "float": 0.5, "flag": True,
        "calls": [{"id": "415-555-2671", "name": "f"}], "key_id": "AKIA" + "IOSFODNN7EXAMPLE", "pair": (1, "x"),
    }  # fmt: skip
    before = copy.deepcopy(data)
    assert _ALL.event(data) == {**data, "key_id": "[REDACTED:aws]", "pair": [1, "x"]}
    assert data == before


def test_data_that_is_too_deep_is_not_shown() -> None:
    data: Any = "jane@example.org"
    for _ in range(MAX_DEPTH + 500):
        data = [data]
    redacted = _ALL.event({"a": data})["a"]
    depth = 0
    while isinstance(redacted, list):
        redacted, depth = redacted[0], depth + 1
    assert (redacted, depth) == ("[REDACTED:depth]", MAX_DEPTH - 1)


def test_allowed_values_are_left_exactly_and_by_pattern() -> None:
    allow = ("*@example.org", "4111111111111111", "test-key")
    redactor = Redactor(Settings().found, allow)
    text = "a@EXAMPLE.org b@example.com 4111111111111111 4012888888881881"
    assert redactor.text(text) == "a@EXAMPLE.org [REDACTED:email] 4111111111111111 [REDACTED:card]"
    assert redactor.event({"api_key": "test-key", "token": "other"}) == {
        "api_key": "test-key",
        "token": "[REDACTED:named]",
    }


def test_only_the_categories_that_are_asked_for_are_replaced() -> None:
    text = "a@example.org +14155552671 AKIA" + "IOSFODNN7EXAMPLE 10.0.0.1"
    assert Redactor(Settings(categories=("email",)).found).text(text).startswith("[REDACTED:email] +1415")
    assert "AKIA" in Redactor(Settings(categories=("pii",)).found).text(text)
    assert "10.0.0.1" in Redactor(Settings().found).text(text)
    assert Redactor(("email",)).event({"api_key": "x"}) == {"api_key": "x"}


_LENGTH = 1 << 18


@pytest.mark.parametrize(
    "unit",
    [
        "a", "a@", "@a.", "+1(", "4111 ", "DE89 ", "password=", "token:", "secret='\"", "sk-", "eyJaaaaaaaa.", "://a:b",
        "xoxb-", "-----BEGIN PRIVATE KEY-----", "bearer a",
    ],
)  # fmt: skip
def test_a_long_text_takes_time_in_proportion(unit: str) -> None:
    text = (unit * (_LENGTH // len(unit) + 1))[:_LENGTH]
    Redactor(Settings().found).text(text)  # a search that is not linear takes hours, and ends with the time of a test


@pytest.mark.parametrize("name", ["Api_Key", "pa\u017f\u017fword", "ap\u0131_key", "SECRET", "toKen", "ßtoken"])
def test_the_name_of_a_secret_is_known_in_every_case(name: str) -> None:
    assert _ALL.text(f"{name}=abc123 ²") == f"{name}=[REDACTED:password] ²"


@settings(max_examples=60, deadline=None)
@given(before=st.text(max_size=30), after=st.text(max_size=30), found=st.sampled_from(sorted(_SECRETS)))
def test_a_secret_between_spaces_is_never_left(before: str, after: str, found: str) -> None:
    redacted = _ALL.text(f"{before} {found} {after}")
    assert found not in redacted
    assert _ALL.text(redacted) == redacted


# --- the hook


async def _seen(coordinator: MockCoordinator, event: str, data: dict[str, Any]) -> Any:
    """Return what a later hook sees of an event."""
    seen: list[Any] = []

    async def later(event: str, data: Any) -> HookResult:
        seen.append(data)
        return HookResult()

    unregister = coordinator.hooks.register(event, later, priority=0, name="later")
    await coordinator.hooks.emit(event, data)
    unregister()
    return seen[0]


async def test_later_hooks_and_the_emitter_see_redacted_data() -> None:
    coordinator = MockCoordinator()
    coordinator.hooks.set_default_fields(session_id="s-1")
    await mount(coordinator)
    data = {"tool_name": "read", "result": {"output": "mail jane@example.org", "success": True}}
    seen = await _seen(coordinator, "tool:post", data)
    assert seen["result"] == {"output": "mail [REDACTED:email]", "success": True}
    assert (seen["session_id"], seen["tool_name"]) == ("s-1", "read")
    assert seen["timestamp"]
    result = await coordinator.hooks.emit("prompt:submit", {"prompt": "my key is sk-" + "a1" * 20})
    assert result.data["prompt"] == "my key is [REDACTED:openai]"


async def test_all_known_events_but_the_tools_input_are_redacted_by_default() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator)
    for event in events.ALL_EVENTS:
        seen = await _seen(coordinator, event, {"text": "jane@example.org"})
        assert (seen["text"] == "[REDACTED:email]") is (event != "tool:pre"), event


async def test_events_are_chosen_by_name_and_pattern() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"events": ["tool:*", "my:own"], "skip_events": ["tool:post"]})
    wanted = {"tool:pre": True, "tool:post": False, "my:own": True, "prompt:submit": False}
    for event, is_redacted in wanted.items():
        seen = await _seen(coordinator, event, {"text": "jane@example.org"})
        assert (seen["text"] == "[REDACTED:email]") is is_redacted, event


async def test_events_that_modules_announce_are_redacted_too() -> None:
    coordinator = MockCoordinator()
    coordinator.register_contributor("observability.events", "a", lambda: ["early:one"])
    await mount(coordinator)
    coordinator.register_capability("observability.events", ["late:one"])
    await coordinator.hooks.emit("session:start", {})
    for event in ("early:one", "late:one"):
        assert (await _seen(coordinator, event, {"text": "a@example.org"}))["text"] == "[REDACTED:email]"


async def test_what_modules_announce_without_end_keeps_it_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = MockCoordinator()
    coordinator.register_contributor("observability.events", "a", lambda: ["x" * 300, ""])
    coordinator.register_contributor("observability.events", "b", lambda: [f"e:{number}" for number in range(5000)])
    await mount(coordinator, {"events": ["*", "my:own"]})
    registered = coordinator.hooks.list_handlers()
    assert "my:own" in registered and "e:100" in registered and "x" * 300 not in registered
    assert len(registered) == 500
    assert "events too many, which are not redacted" in caplog.text
    assert (await _seen(coordinator, "tool:post", {"text": "a@example.org"}))["text"] == "[REDACTED:email]"


async def test_data_without_anything_to_replace_is_passed_on_as_it_is() -> None:
    hook = RedactionHook(MockCoordinator(), Settings())
    for data in ({"a": "plain", "n": [1, {"b": None}]}, {}, None, [1], "jane@example.org"):
        assert (await hook.handle("x", data)).action == "continue"


async def test_data_that_cannot_be_gone_through_is_kept_back(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise LookupError("jane@example.org")

    hook = RedactionHook(MockCoordinator(), Settings())
    result = await hook.handle("x", {"session_id": "s", "a": Broken(), "b": "text"})
    assert result.action == "modify"
    assert result.data == {"session_id": "s", "redaction_error": "LookupError"}
    assert "keeps its data back: LookupError" in caplog.text
    assert "jane" not in caplog.text


async def test_cleanup_stops_the_redaction_and_may_be_called_twice() -> None:
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    cleanup()
    cleanup()
    assert not any(coordinator.hooks.list_handlers().values())


# --- configuration and packaging


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"categories": ["mail"]}, "'mail', which is none of secrets, pii, private_key"),
        ({"categories": "pii"}, "`categories` must be a list of texts"),
        ({"allow": [5]}, "`allow` must be a list of texts"),
        ({"events": [""]}, "`events` must be a list"),
        ({"skip_events": None}, "`skip_events` must be a list"),
        ({"priority": True}, "`priority` must be a whole number"),
        ({"allowlist": []}, "no setting `allowlist`; there are categories, allow, events"),
    ],
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any], said: str) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=f"^hooks-redaction: .*{said}"):
        await mount(coordinator, config)
    assert not any(coordinator.hooks.list_handlers().values())
