"""What git's configuration names is read from its text as git itself reads it."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from paddock.policy.git_settings import GitSettings


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\thooksPath = a/b\n",
        "[CORE] HOOKSPATH=a/b",
        "[core]hooksPath=a b  \n",
        '[core]\nhooksPath = "a b  " # c\n',
        "[core]\nhooksPath = a ; c\n",
        '[core]\nhooksPath = a"#;"b\n',
        '[core]\nhooksPath = "a\\"b\\\\c"\n',
        "[core]\nhooksPath = a\\\nb\n",
        '[core]\nhooksPath = "a\\\nb"\n',
        "[core]\n# no \\\nhooksPath = a\n",
        "[core]\r\nhooksPath = a\r\n",
        "\ufeff[core]\nhooksPath = a\n",
        "[user]\nname = x\n[core]\nbare\nhooksPath = a\nhooksPath = b\n",
        '[core "x"]\nhooksPath = a\n',
        '[user]\nhooksPath = a\n[x "[core]"]\nhooksPath = b\n',
        "[core]\nx = [core]\nhooksPath\n",
        "[core]\nhooksPath =\n",
        "[core]\n;hooksPath = a\n#hooksPath = b\n",
        "[core]\n\n  \t hooksPath\t=\ta b\n",
        "",
    ],
)
def test_hooks_are_where_git_has_them(text: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_bytes(text.encode())
    git = ["git", "config", "--file", str(config), "-z", "--get-all", "core.hooksPath"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    run = subprocess.run(git, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert run.returncode in (0, 1), run.stderr
    settings = GitSettings(tmp_path)
    settings.read(config, [tmp_path / "tree"])
    assert [str(place) for place in settings.named] == [
        str(tmp_path / "tree" / value) for value in run.stdout.split("\0") if value
    ]
    assert settings.is_complete


def test_a_path_below_the_home_folder_and_one_through_a_link_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "config").write_text(
        "[core]\nhooksPath = ~/hooks\nhooksPath = link/../up\nhooksPath = link/last\nhooksPath = .."
    )
    settings = GitSettings(tmp_path / "home")
    settings.read(tmp_path / "config", [tmp_path])
    expected = [tmp_path / "home" / "hooks", tmp_path / "up", tmp_path / "real" / "last", tmp_path.parent]
    assert list(settings.named) == expected


def test_a_file_that_is_not_there_names_nothing(tmp_path: Path) -> None:
    settings = GitSettings(tmp_path)
    settings.read(tmp_path / "none", [])
    settings.read(Path("/dev/null/none"), [])
    assert settings.is_complete and not settings.named


def test_a_path_below_a_named_users_home_folder_is_where_git_has_it(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid())
    values = [f"~{me.pw_name}/hooks", f"~{me.pw_name}", "~", "~//hooks"]
    config = tmp_path / "config"
    config.write_text("[core]\n" + "".join(f"hooksPath = {value}\n" for value in values))
    git = ["git", "config", "--file", str(config), "-z", "--type=path", "--get-all", "core.hooksPath"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    run = subprocess.run(git, capture_output=True, text=True, env=environ, timeout=60, check=True)
    settings = GitSettings(tmp_path)
    settings.read(config, [tmp_path / "tree"])
    assert [os.path.realpath(place) for place in settings.named] == list(
        dict.fromkeys(os.path.realpath(value) for value in run.stdout.split("\0") if value)
    )
    assert settings.is_complete


@pytest.mark.parametrize("value", ["~no-such-user-of-this-machine/x", "~" + "a" * 5000, "~\udcff/x", "%(prefix)/x"])
def test_a_path_that_cannot_be_followed_is_told_of(value: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"[core]\nhooksPath = " + os.fsencode(value) + b"\nhooksPath = y\n")
    settings = GitSettings(tmp_path)
    settings.read(tmp_path / "config", [tmp_path])
    assert not settings.is_complete
    assert list(settings.named) == [tmp_path / "y"]


def test_no_more_users_are_asked_for_than_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(name: str) -> pwd.struct_passwd:
        asked.append(name)
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", ask)
    (tmp_path / "config").write_text("[core]\n" + "".join(f"hooksPath = ~u{n % 100}/x\n" for n in range(200)))
    settings = GitSettings(tmp_path)
    settings.read(tmp_path / "config", [tmp_path])
    assert asked == [f"u{n}" for n in range(10)]
    assert not settings.is_complete
