"""What a module may do, and which line would let it: as the grants have it, for every family of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.isolation.compile import confine
from paddock.isolation.denials.explain import FAMILIES, Explanation, Family, explain
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.fixed_paths import FixedPaths
from paddock.plan.permissions import Permissions, permissions_line, with_grant
from paddock.plan.problems import NotAcceptedError
from paddock.policy.limits import ResourceLimits
from paddock_sandbox.profile import IsolationLevel
from support.rows import each_row

from ..policy.entries import entry, module_at, owner, runtime_of


class Scene:
    """A folder of work with a few things in it, a home beside it, and a module somewhere else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "project"
        for folder in (self.home, self.work / "src", self.work / ".git/hooks", root / "other", root / "runtime"):
            folder.mkdir(parents=True)
        for file in "project/a.txt project/.git/HEAD project/.git/config home/key other/b.txt runtime/python".split():
            (root / file).touch()
        for folder in ("objects", "refs"):
            (self.work / ".git" / folder).mkdir()
        self.code = module_at(root / "modules/tool-x")
        inner = module_at(self.work / "modules/tool-y", "amplifier_module_tool_y")
        self.inner_code = replace(inner, module_id="tool-y")
        (root / "modules/tool-x/out").mkdir()
        (self.work / "plan.yaml").touch()
        (self.work / "out").symlink_to(root / "other")
        self.runtime = runtime_of(root / "runtime/python")

    def subject(self, permissions: object = None, level: IsolationLevel = "ns", **keys: Any) -> ExplainedModule:
        one = entry(permissions=permissions, **keys)
        confinement = confine(
            one,
            level=level,
            resolution=self.code,
            working_dir=self.work,
            runtime_paths=self.runtime,
            limits=ResourceLimits.of(one),
            owner=owner(self.home),
            scratch=Path("/scratch"),
            modules=[self.inner_code],
            kept=[self.work / "plan.yaml"],
        )
        return ExplainedModule(
            entry=one,
            profile=confinement.profile,
            working_dir=self.work,
            owner=owner(self.home),
            fixed=FixedPaths.of(self.code, [self.inner_code], [], [self.work / "plan.yaml"]),
            protected=confinement.protected,
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def would_be(subject: ExplainedModule, told: Explanation) -> Permissions:
    """Return the permissions with the line that was told in the entry: as a person would do it."""
    assert bool(told.in_place_of) == (subject.entry.permissions != Permissions())
    permissions = Permissions.model_validate(yaml.safe_load(told.grant)["permissions"])
    assert permissions == told.added
    return permissions


# -- files ---------------------------------------------------------------------------------

READ = [
    # granted, asked for, whether it may, what it is told, the path of the line
    ({"read": ["."]}, "a.txt", True, "it is in", None),
    ({"read": ["."]}, "{work}/a.txt", True, "it is in", None),
    ({"read": ["."]}, "src/../a.txt", True, "it is in", None),
    ({"read": ["."]}, "new.txt", True, "there is no such file at present", None),
    ({"write": ["."]}, "a.txt", True, "it is in", None),
    ({"read": ["a.txt"]}, "a.txt", True, "it is in", None),
    ({"read": ["src"]}, "a.txt", False, "exists outside", "./a.txt"),
    ({}, "a.txt", False, "exists outside", "./a.txt"),
    ({}, "~/key", False, "exists outside", "{root}/home/key"),
    ({}, "nowhere.txt", False, "there is no such file outside either", None),
    ({}, "{root}/other/b.txt", False, "exists outside", "{root}/other/b.txt"),
    ({"read": ["."]}, "out/b.txt", False, "no grant covers it; `{root}/other/b.txt` exists outside", "./out/b.txt"),
    ({"read": ["out"]}, "out/b.txt", True, "it is in `{root}/other`", None),
    ({"read": ["out"]}, "{root}/other/b.txt", True, "it is in `{root}/other`", None),
    ({"read": ["{root}/other"]}, "out/b.txt", False, "it is a link to `{root}/other/b.txt`", "./out/b.txt"),
    ({}, "{root}/modules/tool-x/amplifier_module_tool_x/__init__.py", True, "is its own code", None),
    ({}, "{root}/runtime/python", True, "part of what it runs from", None),
    ({}, "/scratch/x", True, "a private folder of its own", None),
    ({}, "/tmp/surely-not-there", True, "a private folder of its own", None),
    ({}, "/dev/null", True, "every module has it", None),
    ({}, "/dev/sda", False, "of devices it has only", None),
    ({}, "/proc/self/status", True, "a /proc of its own", None),
    ({}, "/proc/1/environ", False, "a /proc of its own", None),
    ({}, "/etc/passwd", False, "a file of its own under that name", "/etc/passwd"),
    ({}, "/", False, "it cannot be granted: `/` is the whole file system", None),
]


WRITE = [
    ({"write": ["."]}, "a.txt", True, "it is in", None),
    ({"write": ["."]}, "new.txt", True, "it is in", None),
    ({"read": ["."]}, "a.txt", False, "it may be read, and not written to", "./a.txt"),
    ({"read": ["."]}, "new.txt", False, "it may be read, and not written to", "."),
    ({"read": ["."], "write": ["src"]}, "src/x", True, "it is in", None),
    ({}, "a.txt", False, "exists outside", "./a.txt"),
    ({}, "new/deep.txt", False, "there is no such file outside either", "."),
    ({"write": ["."]}, ".git/hooks/pre-commit", False, "your next git command may run", "./.git"),
    ({"write": ["."]}, ".git/config", False, "your next git command may run", "./.git"),
    ({"write": [".", ".git/hooks"]}, ".git/hooks/pre-commit", True, "it is in", None),
    ({"write": ["."]}, "modules/tool-y/x", False, "which is the code of module `tool-y`", None),
    ({"write": ["."]}, "plan.yaml", False, "may change `{root}/project/plan.yaml`, which the session depends on", None),
    ({}, "plan.yaml", False, "which the session depends on and no module may change", None),
    ({}, "{root}/modules/tool-x/x", False, "is the code of module `tool-x`, which no module may change", None),
    ({}, "{root}/modules/tool-x/out/x", False, "it may be read, and not written to", "{root}/modules/tool-x/out"),
    ({}, "/usr/lib/x", False, "the system's own", None),
]


@each_row(
    ("family", "granted", "target", "allowed", "told", "path"),
    [*(("read", *row) for row in READ), *(("write", *row) for row in WRITE)],
    ids=lambda value: str(value)[:30],
)
def test_reading_and_writing(
    scene: Scene, family: Family, granted: dict[str, list[str]], target: str, allowed: bool, told: str, path: str | None
) -> None:
    places = {"root": str(scene.root), "work": str(scene.work)}
    written = {family: [one.format(**places) for one in grants] for family, grants in granted.items()}
    asked = target.format(**places)
    found = explain(scene.subject(written), family, asked)
    assert (found.allowed, found.layer) == (allowed, "files"), found
    assert told.format(**places) in found.reason
    assert bool(found.grant) == (path is not None), found
    if path is not None:
        added = would_be(scene.subject(written), found)
        assert getattr(added, family)[-1] == path.format(**places)
        assert explain(scene.subject(added.model_dump(exclude_defaults=True)), family, asked).allowed


def test_without_namespaces_grants_add_up_and_links_are_what_they_lead_to(scene: Scene) -> None:
    subject = scene.subject({"read": [str(scene.root / "other")], "write": ["src"]}, "landlock")
    assert explain(subject, "read", "out/b.txt").allowed
    assert explain(subject, "write", "src/x").allowed
    assert not explain(subject, "write", "a.txt").allowed
    assert explain(subject, "read", "/scratch/x").reason == "it is its private folder"


@pytest.mark.parametrize("family", ["read", "write", "run", "net"])
def test_without_isolation_nothing_is_refused(scene: Scene, family: Family) -> None:
    targets = {"read": "/etc/shadow", "write": "/etc/shadow", "run": "reboot", "net": "10.0.0.1"}
    found = explain(scene.subject(level="none"), family, targets[family])
    assert found.allowed and "isolation level `none` refuses nothing" in found.reason


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, may read what is nobody's")
def test_what_the_user_may_not_read_no_grant_lets_a_module_read(scene: Scene) -> None:
    assert explain(scene.subject({"read": ["."]}), "read", "a.txt").allowed
    (scene.work / "a.txt").chmod(0)
    found = explain(scene.subject({"read": ["."]}), "read", "a.txt")
    assert not found.allowed and "may not either" in found.reason


def test_a_grant_whose_path_is_gone_breaks_no_explanation(scene: Scene) -> None:
    subject = scene.subject({"read": ["src", "a.txt"]})
    (scene.work / "src").rmdir()
    assert explain(subject, "read", "a.txt").by == "read: a.txt"


# -- all other families --------------------------------------------------------------------

OTHERS: list[tuple[dict[str, Any], Family, str, bool, str, str, str]] = [
    # granted, family, asked for, whether it may, layer, what is told, what to add
    ({"run": ["sh"]}, "run", "sh", True, "programs", "it is ", ""),
    ({"run": ["sh"]}, "run", "/bin/sh", True, "programs", "it is ", ""),
    ({"run": ["*"]}, "run", "sh", True, "programs", "it is ", ""),
    ({}, "run", "sh", False, "programs", "it may run no program at all", "sh"),
    ({}, "run", "/bin/sh", False, "programs", "it may run no program at all", "sh"),
    ({"run": ["sh"]}, "run", "env", False, "programs", "of programs it may run only sh", "env"),
    ({}, "run", "no-such-program", False, "programs", "no program `no-such-program`", ""),
    ({}, "run", "./sh", False, "programs", "`./sh` does not exist", ""),
    ({"net": ["example.org"]}, "net", "example.org", True, "egress", "a public address", ""),
    ({"net": ["example.org"]}, "net", "EXAMPLE.org.:443", True, "egress", "a public address", ""),
    ({"net": ["*.example.org"]}, "net", "a.example.org", True, "egress", "a public address", ""),
    ({"net": ["*.example.org"]}, "net", "example.org", False, "egress", "only *.example.org:443", "example.org:443"),
    ({"net": ["example.org"]}, "net", "example.org:80", False, "egress", "at port 443 only", "example.org:80"),
    ({"net": ["10.0.0.0/8:80"]}, "net", "10.1.2.3:80", True, "egress", "granted literally", ""),
    ({"net": ["example.org"]}, "net", "127.0.0.1:80", False, "egress", "granted literally", "127.0.0.1:80"),
    ({"net": ["public"]}, "net", "example.org", True, "egress", "ANY public host", ""),
    ({"net": ["public", "example.org"]}, "net", "example.org:22", False, "egress", "80 and 443", "example.org:22"),
    ({"net": ["public"]}, "net", "printer.local:80", False, "egress", "no public host", "printer.local:80"),
    ({"net": ["public"]}, "net", "127.0.0.1:80", False, "egress", "granted literally", "127.0.0.1:80"),
    ({}, "net", "example.org", False, "network", "cannot make a socket", "example.org:443"),
    ({"env": ["EDITOR"]}, "env", "EDITOR", True, "launcher", "passed on, if it is set", ""),
    ({"env": ["EDITOR=vi"]}, "env", "EDITOR", True, "launcher", "the plan sets it", ""),
    ({}, "env", "HOME", True, "launcher", "a value of its own", ""),
    ({}, "env", "EDITOR", False, "launcher", "nothing but what is named", "EDITOR"),
    ({"secrets": ["KEY"]}, "secrets", "KEY", True, "launcher", "given the value", ""),
    ({}, "secrets", "OPENAI_API_KEY", False, "launcher", "is filled in", "OPENAI_API_KEY"),
    ({"call": ["tools"]}, "call", "tools", True, "router", "it was granted", ""),
    ({"call": ["tools:a"]}, "call", "tools:a", True, "router", "it was granted", ""),
    ({"call": ["tools:a"]}, "call", "tools:b", False, "router", "a tool may call its own objects", "tools:b"),
    ({}, "call", "providers:x", False, "router", "a tool may call its own objects", "providers"),
    ({}, "emit", "artifact:write", True, "router", "of its kind (tool) may", ""),
    ({}, "emit", "mine:own", True, "router", "of its kind (tool) may", ""),
    ({}, "emit", "tool:pre", False, "router", "has no business with", "tool:pre"),
    ({"emit": ["tool:*"]}, "emit", "tool:pre", True, "router", "its kind or a grant", ""),
    ({}, "hooks", "tool:pre", False, "router", "only the events that it is granted", "tool:pre"),
    ({"hooks": ["tool:*"]}, "hooks", "tool:pre", True, "router", "it was granted", ""),
    ({}, "mount", "tools", True, "router", "of its kind (tool) may", ""),
    ({}, "mount", "providers", False, "router", "acts for the session", "providers"),
    ({"mount": ["context"]}, "mount", "providers", False, "router", "acts for the session", "providers"),
    ({"mount": ["providers"]}, "mount", "providers", True, "router", "it was granted", ""),
    ({}, "mount", "module-source-resolver", False, "router", "the application's alone", ""),
]


@each_row(("granted", "family", "target", "allowed", "layer", "told", "add"), OTHERS)
def test_every_other_family(
    scene: Scene,
    granted: dict[str, Any],
    family: Family,
    target: str,
    allowed: bool,
    layer: str,
    told: str,
    add: str,
) -> None:
    subject = scene.subject(granted)
    found = explain(subject, family, target)
    assert (found.allowed, found.layer) == (allowed, layer), found
    assert told in found.reason
    assert bool(found.grant) == bool(add)
    if add:
        added = would_be(subject, found).model_dump(exclude_defaults=True, mode="json")
        again = explain(scene.subject({**added, "secrets": [add]} if family == "secrets" else added), family, target)
        assert again.allowed, again


def test_an_injected_secret_is_told_to_stay_outside(scene: Scene) -> None:
    permissions = {"net": ["example.org"], "secrets": [{"name": "KEY", "inject": "host"}]}
    found = explain(scene.subject(permissions), "secrets", "KEY")
    assert found.allowed and "never sees the value" in found.reason


def test_kinds_that_may_do_a_thing_without_a_grant_are_told_so(scene: Scene) -> None:
    one = entry("hook", module="hooks-x")
    subject = scene.subject()
    hook = replace(subject, entry=one)
    assert explain(hook, "hooks", "tool:pre").reason == "a module of its kind (hook) may"


@each_row(
    ("family", "target"),
    [
        ("net", "https://example.org"),
        ("net", "example.org:0"),
        ("net", "127.1"),
        ("env", "A B"),
        ("secrets", "${KEY}"),
        ("call", "nothing"),
        ("call", "tools:"),
        *((family, target) for family in FAMILIES for target in ("", "a\x1b[2J", "a\u202eb", "a\0b")),
    ],
)
def test_what_no_permission_could_be_about_is_refused_as_a_question(scene: Scene, family: Family, target: str) -> None:
    with pytest.raises(NotAcceptedError):
        explain(scene.subject(), family, target)


def test_the_line_for_a_preset_keeps_its_name(scene: Scene) -> None:
    found = explain(scene.subject("workspace-read"), "net", "example.org")
    assert found.grant == 'permissions: {preset: workspace-read, net: ["example.org:443"]}'
    assert found.in_place_of == "permissions: workspace-read"
    assert explain(scene.subject("isolated"), "env", "A").in_place_of == "permissions: isolated"


def test_the_line_for_an_entry_that_grants_something_keeps_it(scene: Scene) -> None:
    found = explain(scene.subject({"read": ["."], "env": ["B=1"]}), "env", "A")
    assert (found.grant, found.in_place_of) == ('permissions: {read: ["."], env: ["B=1", "A"]}', "permissions")
    assert explain(scene.subject(), "env", "A").in_place_of == ""


@pytest.mark.parametrize(
    ("written", "in_place_of"),
    [(Permissions(), ""), (Permissions(write=(".",)), "permissions")],
    ids=["nothing", "a part"],
)
def test_an_entrys_line_includes_grants_from_elsewhere(scene: Scene, written: Permissions, in_place_of: str) -> None:
    secret = {"name": "KEY", "inject": "host"}
    given = {"write": ["."], "net": ["example.org"], "secrets": [secret, "OTHER"]}
    found = explain(replace(scene.subject(given), written=written), "env", "EDITOR")
    assert yaml.safe_load(found.grant) == {"permissions": {**given, "env": ["EDITOR"]}}
    assert found.in_place_of == in_place_of


def test_a_line_quotes_what_is_in_it() -> None:
    line = permissions_line(with_grant(Permissions(), "read", './a "b" #c: é'))
    assert yaml.safe_load(line) == {"permissions": {"read": ['./a "b" #c: é']}}


def test_the_innermost_grant_is_named(scene: Scene) -> None:
    found = explain(scene.subject({"write": [".", ".git"]}), "write", ".git/config")
    assert found.by == "write: .git"
