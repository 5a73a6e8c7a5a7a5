"""The little of the application library that modules import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import amplifier_foundation
import pytest
from amplifier_foundation import ProviderPreference, get_working_dir, set_working_dir

from paddock_sdk.testing import MockCoordinator


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


@pytest.mark.parametrize(("data", "missing"), [({}, "provider, model"), ({"provider": "p"}, "model")])
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


_SPAN = "[0-9a-f]{16}"


@pytest.mark.parametrize(
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
    with pytest.raises(AttributeError, match="no attribute 'Bundle'; here, it has ProviderPreference, generate_sub"):
        amplifier_foundation.Bundle  # noqa: B018
