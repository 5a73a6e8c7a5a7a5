"""Which grants served a module, by their places, and which were not seen used: never more than is granted."""

from __future__ import annotations

from paddock.plan.grant_use import MOST, SEEN_BY_HOST, SEEN_BY_MODULE, GrantUse, states_of
from paddock.plan.permissions import FAMILIES, Permissions
from support.rows import each_row


@each_row(
    ("family", "granted", "target", "places"),
    [
        ("call", ["tools:a", "tools", "*", "providers"], "tools:a", [0, 1, 2]),
        ("call", ["tools:a", "providers"], "tools:b", []),
        ("call", ["context", "state:x"], "state:x", [1]),
        ("emit", ["llm:*", "llm:request", "tool:*"], "llm:request", [0, 1]),
        ("hooks", ["tool:pre"], "tool:post", []),
        ("mount", ["context", "providers"], "providers", [1]),
        ("run", ["git", "/opt/x/git", "*", "make"], "git", [0, 1, 2]),
    ],
)
def test_an_act_is_the_use_of_each_grant_that_allows_it(
    family: str, granted: list[str], target: str, places: list[int]
) -> None:
    use = GrantUse(Permissions.parse({family: granted}))
    for _ in range(2):
        use.note(family, target)
    assert use.as_dict() == ({family: places} if places else {})


def test_each_grant_is_told_as_used_or_not_unless_nobody_sees_it() -> None:
    granted = Permissions.parse(
        {
            "preset": "workspace",
            "read": ["/data", "!.env"],
            "net": ["self", "a.example.org", "b.example.org"],
            "env": ["LANG"],
            "secrets": ["HANDED", {"name": "USED", "inject": "a.example.org"}, {"name": "KEPT", "inject": "host"}],
            "call": ["tools:a"],
        }
    )
    use = GrantUse(granted)
    for family, written in {"net": "a.example.org", "secrets": "USED", "read": "."}.items():
        use.note_written(family, {written, "unknown"})
    used = use.as_dict()
    found: dict[str, list[str]] = {}
    for family, grant, state in states_of(granted, used, ["write"]):
        found.setdefault(state, []).append(f"{family} {getattr(grant, 'name', grant)}")
    assert {state: sorted(grants) for state, grants in found.items()} == {
        "used": ["net a.example.org", "read .", "secrets USED"],
        "not seen used": ["call tools:a", "net b.example.org", "read /data", "secrets KEPT"],
        "not known": ["env LANG", "net self", "secrets HANDED", "write ."],
        "excludes": ["read !.env", "read !@secrets"],
    }


def test_nothing_is_said_of_grants_beyond_those_that_are_watched() -> None:
    granted = Permissions.parse({"call": [f"tools:t{number}" for number in range(MOST + 1)]})
    assert [state for _, _, state in states_of(granted, {}, ())] == [*["not seen used"] * MOST, "not known"]


def test_a_module_that_invents_events_does_not_fill_the_memory() -> None:
    use = GrantUse(Permissions.parse({"emit": ["x:*"]}))
    for number in range(2000):
        use.note("emit", f"x:{number}")
    assert use.as_dict() == {"emit": [0]} and use._places.cache_info().currsize < 300


def test_of_every_family_it_is_known_who_sees_its_use() -> None:
    seen_by_nobody = ("env",)
    assert sorted((*SEEN_BY_HOST, *SEEN_BY_MODULE, *seen_by_nobody)) == sorted(FAMILIES)
