"""Whatever plans, flags and grants say: what comes out is within every cap, judged by what a module could then do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import PaddockError, PlanError, PolicyRefusedError
from paddock.isolation.levels import choose_level
from paddock.plan.limits import Limits
from paddock.plan.net_rule import Destination, NetRule
from paddock.plan.permissions import Permissions, grants_of, preset_grants
from paddock.plan.problems import NotAcceptedError
from paddock.plan.source_map import Location
from paddock.policy.decision import Decision
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.limits import ResourceLimits
from paddock.policy.path_walk import GrantedPath
from paddock.policy.rule import Rule
from paddock.policy.trust import Trust
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from support.examples import examples

from .entries import entry, owner

SOURCE = "git+https://github.com/org/repo"
PATHS = [".", "src", "./src/a", "out", "link", "link/deep", "src/..", "..", "../other", "~", "~/other", "circle"]
EVENTS = ["tool:pre", "tool:post", "a:b", "x"]
GLOBS = ["*", "tool:*", "tool:pre", "*:b", "?", "[ax]", "t*:p*", "a:[b]"]
CALLS = ["*", "tools", "tools:x", "tools:y", "providers", "context", "spawn"]
ACTS = [("tools", "x"), ("tools", "y"), ("tools", None), ("providers", None), ("context", None), ("spawn", None)]
NET = ["a.example", "A.example.:443", "*.x.example", "b.x.example", "x.example:80", "127.0.0.1:80", "127.0.0.0/8:80"]
HOSTS = ["a.example", "b.x.example", "c.b.x.example", "x.example", "127.0.0.1", "127.9.9.9"]
ENV = ["KEY", "KEY=1", "KEY=2", "LC_ALL", "LC_A=1", "MODE=${KEY}"]
RUN = ["*", "git", "git-lfs", "bash"]
SECRETS: list[Any] = [
    "KEY",
    "OTHER",
    {"name": "KEY", "inject": "host"},
    {"name": "OTHER", "inject": "host"},
    {"name": "KEY", "inject": "a.example"},
    {"name": "KEY", "inject": "x.example"},
]

MOUNTS = ["providers", "orchestrator", "context"]
SECRET_CAPS = [*SECRETS, "K*", "*", {"name": "*", "inject": "host"}, {"name": "KEY", "inject": "a.example"}]


GRANTED: dict[str, list[Any]] = {
    "read": PATHS,
    "write": PATHS,
    "net": NET,
    "env": ENV,
    "secrets": SECRETS,
    "run": RUN,
    "call": CALLS,
    "emit": GLOBS,
    "hooks": GLOBS,
    "mount": MOUNTS,
}
CAPPED: dict[str, list[Any]] = {
    **GRANTED,
    "env": [*ENV[:5], "LC_*", "*"],
    "secrets": SECRET_CAPS,
    "run": [*RUN, "git*"],
    "mount": [*MOUNTS, "*"],
}
# What has a say in a family besides its own cap.
NEIGHBOURS = {"read": "write", "write": "read", "env": "secrets", "secrets": "net"}


def some_of(values: dict[str, list[Any]], families: set[str]) -> st.SearchStrategy[Any]:
    tables = {family: st.lists(st.sampled_from(values[family]), max_size=3) for family in sorted(families)}
    return st.fixed_dictionaries({}, optional=tables)


def named_by(families: set[str]) -> st.SearchStrategy[Any]:
    """Return the presets that have anything in these families."""
    presets = [name for name, preset in preset_grants().items() if any(getattr(preset, family) for family in families)]
    return st.sampled_from(presets) if presets else st.nothing()


LEVELS = st.none() | st.sampled_from(ISOLATION_LEVELS)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "memory_max": st.sampled_from(["16M", "512M", "2G"]),
        "tasks_max": st.integers(1, 64),
        "runtime_max": st.sampled_from(["1s", "10min"]),
        "output_max": st.sampled_from(["1K", "1M"]),
    },
)
MATCHES = st.sampled_from(["*", "git+*", "git+https://github.com/org/*", SOURCE, "builtin:*"])


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for folder in ("work/src/a", "work/out", "other/deep"):
        (home / folder).mkdir(parents=True)
    (home / "work" / "link").symlink_to("../other")
    (home / "work" / "circle").symlink_to("circle")
    return home / "work"


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def rules(match: str, caps: Any) -> str:
    return f"[[module]]\nmatch = {toml(match)}\ngrants = {toml(caps)}"


def result(asked: ModuleRequest, where: EvaluationContext) -> Decision | None:
    try:
        (decision,) = evaluate([asked], where)
    except (PolicyRefusedError, PlanError):
        return None
    return decision


def given_by_flag(written: Any) -> tuple[OperatorGrant, ...]:
    if not written:
        return ()
    return (OperatorGrant(Permissions.parse(written), Rule(Location("flag"), "--grant")),)


@pytest.mark.exhaustive("emit", "hooks", "call", "mount")
@pytest.mark.parametrize("family", GRANTED)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_what_is_granted_is_never_above_any_cap(work: Path, family: str, data: st.DataObject) -> None:
    families = {family, NEIGHBOURS.get(family, family)}
    grants = some_of(GRANTED, families) | named_by(families)
    caps = data.draw(st.lists(st.tuples(MATCHES, some_of(CAPPED, families) | named_by(families)), max_size=2))
    asked = ModuleRequest(entry(permissions=data.draw(grants)), SOURCE, given_by_flag(data.draw(st.none() | grants)))
    accepted = data.draw(st.booleans())
    policy = Policy(tuple(PolicyFile.parse(rules(*one), f"{index}.toml") for index, one in enumerate(caps)))
    where = EvaluationContext(policy, Trust(accepted), work, owner(work.parent), {"KEY": "k", "OTHER": "o"})
    decision = result(asked, where)
    if decision is None:
        return
    effective = grants_of(decision.entry.permissions)
    for match, written in caps:
        if match != "builtin:*":
            check_caps(effective, written, work, work.parent)
    if not accepted:
        check_untrusted(effective, asked, work)


def check_untrusted(effective: Permissions, asked: ModuleRequest, work: Path) -> None:
    beyond = grants_of(asked.given[0].permissions) if asked.given else Permissions()
    assert {*effective.net} - {"self"} <= set(beyond.net) and set(effective.secrets) <= set(beyond.secrets)
    assert {name for name in effective.env if "=" not in name} <= set(beyond.env)
    for path in {*effective.read_paths, *effective.write} - {*beyond.read_paths, *beyond.write}:
        assert GrantedPath.resolve(path, work, owner(work.parent)).path.is_relative_to(work)


@settings(max_examples=examples(300), deadline=None)
@given(
    minimums=st.lists(st.none() | st.sampled_from(ISOLATION_LEVELS[:3]), max_size=2),
    caps=st.lists(LIMITS, max_size=2),
    isolation=LEVELS,
    named=LEVELS,
    limits=LIMITS,
    permissions=st.sampled_from(["isolated", "shell"]),
    accepted=st.booleans(),
)
def test_limits_and_levels_are_never_beyond_any_rule(
    work: Path,
    minimums: list[str | None],
    caps: list[dict[str, Any]],
    isolation: IsolationLevel | None,
    named: IsolationLevel | None,
    limits: dict[str, Any],
    permissions: str,
    accepted: bool,
) -> None:
    texts = [f"minimum_isolation = '{one}'" for one in minimums if one] + [f"max_limits = {toml(one)}" for one in caps]
    policy = Policy(tuple(PolicyFile.parse(text, f"{index}.toml") for index, text in enumerate(texts)))
    one = ModuleRequest(entry(permissions=permissions, isolation=isolation, limits=limits), SOURCE, (), named)
    decision = result(one, EvaluationContext(policy, Trust(accepted), work, owner(work.parent), {}))
    if decision is None:
        return
    for file in policy.files:
        check_limits(decision.limits, file)
        check_limits(ResourceLimits.of(decision.entry), file)
        if file.minimum_isolation is not None:
            allowed = ISOLATION_LEVELS[: ISOLATION_LEVELS.index(file.minimum_isolation) + 1]
            assert set(decision.floor.levels) <= set(allowed) and decision.floor.is_fixed
            assert (isolation or named) in (None, *allowed)
            for reachable in ISOLATION_LEVELS:
                try:
                    chosen = choose_level(
                        decision.entry,
                        reachable={reachable},
                        failures={},
                        trusted=accepted,
                        named=named,
                        floor=decision.floor,
                    )
                except PaddockError as error:
                    assert error.code in ("IsolationUnavailableError", "IsolationRefusedError", "PolicyRefusedError")
                    continue
                assert chosen in allowed
    assert accepted or isolation in (None, *decision.floor.levels, named)


def check_limits(limits: ResourceLimits, file: PolicyFile) -> None:
    for name in Limits.model_fields:
        cap, value = getattr(file.max_limits, name), getattr(limits, name)
        assert cap is None or (value is not None and value <= cap)


def check_caps(effective: Permissions, written: Any, work: Path, home: Path) -> None:
    caps = written if isinstance(written, dict) else dict(preset_grants()[written].model_dump(exclude={"preset"}))
    for family in ("emit", "hooks"):
        if family in caps:
            for event in EVENTS:
                if any(fnmatchcase(event, pattern) for pattern in getattr(effective, family)):
                    assert any(fnmatchcase(event, pattern) for pattern in caps[family])
    if "mount" in caps and "*" not in caps["mount"]:
        assert set(effective.mount) <= set(caps["mount"])
    if "call" in caps:
        for point, name in ACTS:
            if may_call(effective.call, point, name):
                assert may_call(tuple(caps["call"]), point, name)
    if "net" in caps:
        assert "self" not in effective.net or "self" in caps["net"]
        for destination in (
            Destination(NetRule.parse(host).destination.host, port) for host in HOSTS for port in (80, 443)
        ):  # type: ignore[union-attr]
            if any(NetRule.parse(rule).matches(destination) for rule in effective.net):
                assert any(NetRule.parse(rule).matches(destination) for rule in caps["net"])
    if "run" in caps:
        for program in ("git", "git-lfs", "bash", "anything"):
            if {"*", program} & set(effective.run):
                assert any(fnmatchcase(program, pattern) for pattern in caps["run"])
    if "env" in caps:
        for grant in effective.env:
            name = grant.partition("=")[0]
            assert any(cap == grant or ("=" not in cap and fnmatchcase(name, cap)) for cap in caps["env"])
    if "secrets" in caps:
        check_secrets(effective, caps)
    if "read" in caps or "write" in caps:
        check_paths(effective, caps, work, home)


def may_call(granted: tuple[str, ...], point: str, name: str | None) -> bool:
    return any(grant in ("*", point) or (name is not None and grant == f"{point}:{name}") for grant in granted)


def check_secrets(effective: Permissions, caps: dict[str, Any]) -> None:
    tables = [{"name": one} if isinstance(one, str) else one for one in caps["secrets"]]
    in_the_open = {grant.name for grant in effective.secrets if grant.inject is None}
    if "env" not in caps:
        in_the_open |= {grant for grant in effective.env if "=" not in grant}
    for name in in_the_open:
        assert any(fnmatchcase(name, one["name"]) and "inject" not in one for one in tables)
    for grant in effective.secrets:
        if grant.inject is not None:
            place = effective.place_of_injection(grant)
            assert any(
                fnmatchcase(grant.name, one["name"])
                and (one.get("inject", "host") == "host" or NetRule.parse(one["inject"]).covers(place))
                for one in tables
            )


def check_paths(effective: Permissions, caps: dict[str, Any], work: Path, home: Path) -> None:
    def seen(paths: Any) -> set[Path]:
        found = set()
        for path in paths:
            try:
                found.add(GrantedPath.resolve(path, work, owner(home)).path)
            except NotAcceptedError:
                continue
        return found

    # More than a cap may mean, since links in the project count for nothing in it.
    may_write = seen(caps.get("write", ()))
    may_read = seen(caps.get("read", ())) | may_write
    for path in seen(effective.write):
        if "write" in caps:
            assert any(path.is_relative_to(root) for root in may_write)
        if "read" in caps:
            assert any(path.is_relative_to(root) for root in may_read)
    for path in seen(effective.read_paths):
        if "read" in caps:
            assert any(path.is_relative_to(root) for root in may_read)
