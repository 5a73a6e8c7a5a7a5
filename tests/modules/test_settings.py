"""What the reference modules take as configuration: each refuses anything else, and its README names what there is."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

from modules import shipped
from paddock.session.sub_sessions.provider_preference import TUNING


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """A module's package, which other tests may have imported from its folder as well."""
    module_id: str = request.param
    monkeypatch.setattr(sys, "path", [str(shipped.home(module_id)), *sys.path])
    return importlib.import_module(f"amplifier_module_{module_id.replace('-', '_')}")


def _settings_in_readme(module_id: str) -> list[str]:
    """Return the first column of the table of settings, of the module's own section if its README has several."""
    text = (shipped.home(module_id) / "README.md").read_text(encoding="utf-8")
    text = text.partition(f"## {module_id}\n")[2] or text
    _, _, table = text.partition("| setting |")
    rows = [line.split(" | ")[0] for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    return sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))


@pytest.mark.parametrize(("imported", "module_id"), [(one, one) for one in shipped.IDS], indirect=["imported"])
async def test_an_unknown_setting_is_refused_and_the_readme_has_the_others(imported: Any, module_id: str) -> None:
    with pytest.raises(ValueError, match=f"^{module_id}: .*`no_such`") as refused:
        await imported.mount(MockCoordinator(), {"no_such": 1})
    _, _, listed = str(refused.value).rpartition(" are ")
    assert sorted(name.strip("`") for name in listed.split(", ")) == _settings_in_readme(module_id)


@pytest.mark.parametrize("imported", ["provider-mock"], indirect=True)
async def test_the_mock_provider_takes_what_a_session_that_delegates_sets(imported: Any) -> None:
    settings = dict.fromkeys(TUNING, 1)
    await imported.mount(coordinator := MockCoordinator(), settings | {"priority": 0, "default_model": "small"})
    assert list(coordinator.get("providers")) == ["mock"]
