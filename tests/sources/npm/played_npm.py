"""npm as far as Paddock calls it, played within the test: what it prints and leaves in its folder.

Whether npm does so, `test_real_npm.py` shows. Versions are exact here, and a second version of a package lies below the
one that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddock_sources.commands.command_runner import CommandAccess, CommandResult, CommandSession
from sources.npm_registry import NpmRegistry, integrity


class PlayedNpm(CommandSession):
    """A runner and its session; `accesses` are what it was given, `argvs` what it ran."""

    def __init__(self, registry: NpmRegistry) -> None:
        super().__init__("npm")
        self.registry = registry
        self.accesses: list[CommandAccess] = []
        self.argvs: list[Sequence[str]] = []
        self.lock_facts: dict[str, dict[str, Any]] = {}

    @contextmanager
    def open(self, access: CommandAccess) -> Iterator[CommandSession]:
        self.accesses.append(access)
        yield self

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        self.argvs.append(argv)
        access = self.accesses[-1]
        (folder,) = access.writes
        match [*argv[5:]]:  # after node, npm and three places
            case [] if argv[0] == "/bin/cat":
                return _done((folder / "package-lock.json").read_text())
            case ["install", *_]:
                wanted = json.loads((folder / "package.json").read_text())["dependencies"]
                packages: dict[str, Any] = {"": {"dependencies": wanted}}
                for name, said in wanted.items():
                    versions = self.registry.manifests.get(name, {})
                    version = [*versions][-1] if said == "latest" and versions else said
                    if version not in versions:
                        return _failed("ETARGET" if versions else "E404")
                    self._place(packages, name, version, "")
                (folder / "package-lock.json").write_text(json.dumps({"packages": packages}))
                return _done("")
            case ["cache", "add", *specs]:
                return next(filter(None, [self._kept(folder, spec) for spec in specs]), _done(""))
        raise AssertionError(argv)

    def _place(self, packages: dict[str, Any], name: str, version: str, inside: str) -> None:
        manifest = self.registry.manifests[name][version]
        path = f"node_modules/{name}"
        if path in packages and packages[path]["version"] == version:
            return
        path = f"{inside}/{path}" if path in packages else path
        told = {key: manifest[key] for key in ("os", "cpu", "libc", "optional") if key in manifest}
        dist = manifest["dist"]
        hashes = {"integrity": dist.get("integrity", "sha1-TzKo4gAUUVN7m6uCxS7XlcY9iI4=")}
        told |= {"version": version, "resolved": dist["tarball"], **hashes}
        packages[path] = told | self.lock_facts.get(name, {})
        for needed, wanted in {**manifest.get("dependencies", {}), **manifest.get("optionalDependencies", {})}.items():
            self._place(packages, needed, wanted, path)

    def _kept(self, folder: Path, spec: str) -> CommandResult | None:
        name, _, version = spec.rpartition("@")
        dist = self.registry.manifests[name][version]["dist"]
        content = self.registry.archives[dist["tarball"].removeprefix(self.registry.url)]
        if dist.get("integrity", integrity(content)) != integrity(content):
            return _failed("EINTEGRITY\nnpm error sha512-… integrity checksum failed when using sha512")
        path = blob(folder, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return None


def blob(folder: Path, content: bytes) -> Path:
    """Return where npm's cache has an archive."""
    from base64 import b64decode

    digest = b64decode(integrity(content).partition("-")[2]).hex()
    return folder / "cache" / "_cacache" / "content-v2" / "sha512" / digest[:2] / digest[2:4] / digest[4:]


def _done(stdout: str) -> CommandResult:
    return CommandResult(0, stdout.encode(), b"")


def _failed(code: str) -> CommandResult:
    return CommandResult(1, b"", f"npm error code {code}\n".encode())
