"""What Paddock stores in a user's folders: made by running commands, kept as one JSON file, and put back elsewhere.

Some names and values are digests of a text with a folder in it. They are kept as words in angle brackets, and are
computed anew, by the rules below, for the folder that the files are put back into. The rules are frozen too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
import sys
from typing import Any

from blackbox.commands import REPOSITORY, World

KEPT = "left by an earlier session"
_PLACES = ("home", "work")
_PLAN = """\
session:
  orchestrator: {module: loop-direct, source: ./modules/amplifier-module-loop-direct}
  context: context-simple
tools:
  - module: tool-acts
    source: git+file://<root>/repo@v1
    state: keep
    permissions: {read: [/etc/hosts], net: [api.example.org]}
"""
# What the lock file says of the repository, whose commit is the same each time.
_COMMIT = "41e94ca9ce140396b9d22cc655823f6554566326"
_TREE = "sha256:47478c02555623a3e072d36590308675081d460263be8b8801d0b9f6465f1fa4"
_ASKS = "sha256:323c88635bd92170ceab543717d175b5b4cb7a087bc167683660028670f8b7dd"
_LEFT_OUT = re.compile(r"__pycache__|/work/modules/|repo\.git/(hooks|info|logs)/|/locks/|grants\.toml\.lock$")
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PACKS = re.compile(r"pack-[0-9a-f]{40}")


def make(world: World) -> World:
    """Have a plan locked, accepted and run, so that every kind of record is there."""
    world.with_modules().with_repository().write("work/plan.yaml", _PLAN)
    assert world.run("lock").code == 0
    done = world.run_on_terminal("run", "plan.yaml", orders(KEPT), answer="yes\n", after="and Enter:")
    assert done.code == 0, done.stdout
    return world


def orders(text: str | None) -> str:
    """Return the prompt that has the module leave a text in its home, or read what is there."""
    return json.dumps({"calls": [{"tool": "act", "input": {"do": "home", "with": text}}]})


def packed(world: World) -> dict[str, Any]:
    """Return the files of a world, none of which says where it was."""
    words = _words(world)
    files: dict[str, Any] = {}
    for path in sorted(path for place in _PLACES for path in (world.folder / place).rglob("*") if path.is_file()):
        name = _replaced(f"/{path.relative_to(world.folder)}", {new: old for old, new in words.items()})
        if _LEFT_OUT.search(name):
            continue
        file: dict[str, Any] = {"mode": f"{path.stat().st_mode & 0o777:o}"}
        data = path.read_bytes()
        try:
            file["text"] = _replaced(data.decode(), {new: old for old, new in words.items()})
        except UnicodeDecodeError:
            file["base64"] = base64.b64encode(data).decode()
        files[name] = file
    return files


def unpack(files: dict[str, Any], world: World) -> None:
    """Put files into a world, as if they had been made there."""
    words = _words(world)
    for name, file in files.items():
        path = world.folder / _replaced(name, words).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file.get("text")
        path.write_bytes(_replaced(text, words).encode() if text is not None else base64.b64decode(file["base64"]))
        path.chmod(int(file["mode"], 8))
    for folder in (world.config, world.state, world.state / "sessions", *world.state.glob("homes/*")):
        folder.chmod(0o700)


def shape(files: dict[str, Any], world: World) -> dict[str, Any]:
    """Return what is the same each time of the files: their names, modes and, of text, what it says."""
    shown = {}
    for name, file in files.items():
        plain = _PACKS.sub("pack-<digest>", _IDS.sub("<id>", name))
        if "/git-v1/" in name and not name.endswith("/url"):
            said: Any = "git's own"
        elif "/journals/" in name:
            said = _kinds(base64.b64decode(file["base64"]))
        elif "/sessions/" in name:
            said = _skeleton(json.loads(file["text"]))
        else:
            said = _said(file["text"], world)
        shown[plain] = {"mode": file["mode"], "says": said}
    return shown


def _kinds(journal: bytes) -> list[str]:
    """Return the head of a journal, and the kind of each record, with the keys that its body begins with."""
    said, start = [journal[:9].hex()], 9
    while start < len(journal):
        length, _, kind, _ = struct.unpack_from("<IIBd", journal, start)
        start += struct.calcsize("<IIBd") + length + 4
        head = journal[start - length - 4 : start - 4].partition(b"\n")[0]
        said.append(f"{kind} {', '.join(json.loads(head)) if head[:1] == b'{' else ''}".strip())
    return said


def _skeleton(value: Any) -> Any:
    """Return the keys of tables, which of them are there; what a machine has decides on the rest."""
    if isinstance(value, dict):
        return {key: _skeleton(item) for key, item in value.items()}
    return [_skeleton(item) for item in value[:1]] if isinstance(value, list) else "..."


def _said(text: str, world: World) -> Any:
    lines = text.splitlines()
    try:
        return sorted((world.shown(json.loads(line)) for line in lines), key=json.dumps)
    except ValueError:
        return [world.shown(line) for line in lines]


def _words(world: World) -> dict[str, str]:
    """Return what stands for what in the world's folder."""
    plan, root = world.work / "plan.yaml", str(world.folder)
    parts = (b"file", str(plan).encode(), world.filled(_PLAN).encode())
    written = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
    outside = b"\0".join([b"tools[0].read", b"/etc/hosts", os.path.realpath("/etc/hosts").encode()])
    digest = hashlib.sha256(b"\0".join([f"sha256:{written}".encode(), outside])).hexdigest()
    address = f"file://{root}/repo"
    whose = {"module": "tool-acts", "source": f"git+{address}", "project": str(world.work), "instance": ""}
    pin = [f"git+{address}@v1", "v1", "tag", _COMMIT, _TREE, "", _ASKS, [], "2026-01-01T00:00:00+00:00", []]
    home = hashlib.sha256(json.dumps(whose, sort_keys=True).encode()).hexdigest()[:32]
    return {
        "<digest of the plan>": digest,
        "<digest of the pin>": hashlib.sha256(json.dumps(pin).encode()).hexdigest(),
        "<digest of its text>": written,
        "<digest of the address>": hashlib.sha256(address.encode()).hexdigest(),
        "<digest of the home>": home,
        "<root>": root,
        "<repository>": str(REPOSITORY),
        "<python>": sys.base_prefix,
    }


def _replaced(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text
