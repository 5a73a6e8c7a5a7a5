"""The little of the application library that modules import."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import amplifier_foundation
import pytest
from amplifier_foundation import ProviderPreference, get_working_dir, set_working_dir

from paddock_sdk.testing import MockCoordinator
from support.rows import each_row


def test_a_preference_is_made_of_a_provider_a_model_and_a_configuration() -> None:
    assert ProviderPreference("p", "m") == ProviderPreference(provider="p", model="m", config={})
    assert ProviderPreference("p", "m").config is not ProviderPreference("p", "m").config


def test_a_preference_becomes_plain_data_and_comes_back() -> None:
    preference = ProviderPreference("p", "m", {"temperature": 0})
    data = preference.to_dict()
    assert data == {"provider": "p", "model": "m", "config": {"temperature": 0}}
    assert ProviderPreference.from_dict(data) == preference
    assert ProviderPreference.from_dict({"provider": "p", "model": "m"}) == ProviderPreference("p", "m")
    data["config"]["temperature"] = 1
    assert preference.config == {"temperature": 0}


@each_row(("data", "missing"), [({}, "provider, model"), ({"provider": "p"}, "model")])
def test_data_without_a_provider_or_a_model_is_no_preference(data: dict[str, Any], missing: str) -> None:
    with pytest.raises(ValueError, match=f"missing: {missing}"):
        ProviderPreference.from_dict(data)


def test_the_working_directory_is_what_was_said_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = MockCoordinator()
    monkeypatch.chdir(tmp_path)
    assert get_working_dir(coordinator) == Path.cwd()
    assert get_working_dir(coordinator, "/elsewhere") == Path("/elsewhere")
    set_working_dir(coordinator, tmp_path / "a")
    assert coordinator.get_capability("session.working_dir") == str(tmp_path / "a")
    assert get_working_dir(coordinator, "/elsewhere") == tmp_path / "a"


class Models:
    """A provider that lists models, some by name alone, or fails to."""

    def __init__(self, *models: Any, failure: Exception | None = None) -> None:
        self._models, self._failure = models, failure

    async def list_models(self) -> list[Any]:
        if self._failure is not None:
            raise self._failure
        return list(self._models)


_NAMED = SimpleNamespace(id="small-2025")


@each_row(
    ("pattern", "provider", "model", "available", "matched"),
    [
        ("large-[x", "", "large-[x", None, None),
        ("small-*", "some", "small-2025", ["small-2024", "small-2025", "large"], ["small-2025", "small-2024"]),
        ("small-*", "provider-some", "small-2025", ["small-2024", "small-2025", "large"], ["small-2025", "small-2024"]),
        ("tiny-?", "some", "tiny-?", ["small-2024", "small-2025", "large"], []),
        ("small-*", "absent", "small-*", [], []),
        ("small-*", "closed", "small-*", [], []),
    ],
)
async def test_a_pattern_becomes_the_last_model_that_fits_it(
    pattern: str, provider: str, model: str, available: list[str] | None, matched: list[str] | None
) -> None:
    from amplifier_foundation.spawn_utils import ModelResolutionResult

    coordinator = MockCoordinator()
    await coordinator.mount("providers", Models("small-2024", _NAMED, "large"), name="some")
    await coordinator.mount("providers", Models(failure=PermissionError("not granted")), name="provider-closed")
    found = await amplifier_foundation.resolve_model_pattern(pattern, provider, coordinator)
    assert found == ModelResolutionResult(model, pattern, available, matched)


async def test_a_plain_name_of_a_model_is_not_looked_up() -> None:
    found = await amplifier_foundation.resolve_model_pattern(
        model_hint="small-2024", provider_name="some", coordinator=None
    )
    assert found == amplifier_foundation.ModelResolutionResult("small-2024")


_SPAN = "[0-9a-f]{16}"


@each_row(
    ("given", "form"),
    [
        ({}, f"0{{16}}-{_SPAN}_agent"),
        ({"agent_name": ""}, f"0{{16}}-{_SPAN}_agent"),
        ({"agent_name": "My Agent!"}, f"0{{16}}-{_SPAN}_my-agent"),
        ({"agent_name": "foundation:explorer"}, f"0{{16}}-{_SPAN}_foundation-explorer"),
        ({"parent_session_id": f"{'1' * 16}-{'2' * 16}_a"}, f"2{{16}}-{_SPAN}_agent"),
        ({"parent_session_id": "root", "parent_trace_id": "f" * 8 + "3" * 16 + "f" * 8}, f"3{{16}}-{_SPAN}_agent"),
    ],
)
def test_an_id_of_a_sub_session_begins_with_its_parents_span(given: dict[str, str], form: str) -> None:
    from amplifier_foundation.tracing import generate_sub_session_id

    assert generate_sub_session_id is amplifier_foundation.generate_sub_session_id
    ids = {generate_sub_session_id(**given) for _ in range(20)}
    assert len(ids) == 20 and all(re.fullmatch(form, one) for one in ids)


@pytest.mark.difference("`amplifier_foundation` exists, with only what delegating tools import")
def test_there_is_nothing_else_and_an_error_says_what_there_is() -> None:
    assert {"ProviderPreference", "get_working_dir", "set_working_dir"} <= set(dir(amplifier_foundation))
    with pytest.raises(AttributeError, match="no attribute 'Bundle'; here, it has ModelResolutionResult, ProviderPref"):
        amplifier_foundation.Bundle  # noqa: B018
