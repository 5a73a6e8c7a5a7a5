"""What other programs of the user run by themselves is found in its fixed places, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from paddock.policy import guarded_paths as guarding
from paddock.policy.guarded_paths import GuardedPaths
from support.rows import each_row


def make_repository(folder: Path) -> Path:
    """Make what git makes, as far as it matters."""
    git = folder / ".git"
    return make_git_folder(git)


def make_git_folder(git: Path) -> Path:
    for name in ("objects", "refs", "hooks"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n")
    return git


def found(folder: Path, home: Path | None = None) -> set[str]:
    guarded = GuardedPaths.find(folder, home or folder / "no-home")
    assert guarded.is_complete
    return {str(path.relative_to(folder)) for path in guarded.existing}


def test_a_folder_of_data_holds_nothing_to_guard(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "Makefile").touch()
    assert found(tmp_path) == set()


def test_the_folder_of_a_repository_is_guarded_as_a_whole(tmp_path: Path) -> None:
    make_repository(tmp_path)
    assert found(tmp_path) == {".git"}


RUN_UNASKED = [
    *(".hg/hgrc", ".jj/repo/config.toml", ".helix/languages.toml", ".lldbinit", ".Rprofile", ".irbrc", ".sqliterc"),
    *(".opencode/plugin/x.ts", "opencode.json", ".aider.conf.yml", ".windsurf/mcp.json"),
    *(".flake8", ".php-cs-fixer.php", ".credo.exs", "x.code-workspace", ".externalToolBuilders/x.launch", ".build.ps1"),
    *(".gitlab-ci.yml", ".circleci/config.yml", ".forgejo/workflows/x.yml", "azure-pipelines.yml"),
]


def test_what_other_tools_run_unasked_stays_as_it_is(tmp_path: Path) -> None:
    place_files(tmp_path, *RUN_UNASKED)
    kept = GuardedPaths.find(tmp_path, tmp_path / "no-home").to_protect(())
    assert [name for name in RUN_UNASKED if not any((tmp_path / name).is_relative_to(path) for path in kept)] == []


AT_TOPS = [
    *(".devcontainer.json", "lefthook-local.yml", ".mise.local.toml", ".dir-locals-2.el", "opencode.jsonc"),
    *(".woodpecker.yaml", "Jenkinsfile", ".clinerules/x", ".env", ".npmrc", "AGENTS.md", "CLAUDE.local.md"),
    *(".local/lib/python3.11/site-packages/x.pth", ".cargo/new", ".gdbearlyinit", ".claude.json", ".bashrc.d/x"),
    *(".config/VSCodium/User/tasks.json", ".docker/config.json", ".local/share/systemd/user/x", ".gradle/init.d/x"),
    ".config/Claude/claude_desktop_config.json",
    *(".local/share/asdf/shims/x", ".local/share/cargo/bin/x", ".local/share/vulkan/implicit_layer.d/x.json"),
]
AT_HOME_ALONE = ["bin/x", ".new/x", ".new-agent", ".local/new", ".config/new/x"]
OPEN = [
    *(".gitignore", ".env.example", ".venv/x", ".pytest_cache/x", ".eslintcache", ".coverage.host.1", ".pnp.cjs"),
    *(".cargo/registry/x", ".local/share/x", ".gradle/8/x", ".amplifier/talk.jsonl", "src/.hidden", "Makefile"),
]


def test_what_programs_start_with_stays_as_it_is_at_each_top(tmp_path: Path) -> None:
    """Of a project, and of a repository in it; in a home each hidden name, but those of a table."""
    home = tmp_path / "home/me"
    make_repository(tmp_path / "sub")
    for top in (tmp_path, tmp_path / "sub", home):
        place_files(top, *AT_TOPS, *AT_HOME_ALONE, *OPEN)
    guarded = GuardedPaths.find(tmp_path, home)
    protected = guarded.to_protect(())

    def kept(top: Path, names: list[str]) -> list[str]:
        return [name for name in names if guarding.keeps(protected, guarded.open, top / name)]

    for top in (tmp_path, tmp_path / "sub", home):
        assert kept(top, AT_TOPS) == AT_TOPS
        assert kept(top, OPEN) == []
        assert kept(top, AT_HOME_ALONE) == (AT_HOME_ALONE if top == home else [])
    assert [name for name in AT_HOME_ALONE if not guarding.runner_opened(home / name, tmp_path / "sub", home)] == []
    assert guarding.runner_opened(home / ".local/share/x", tmp_path / "sub", home) == ""


def test_naming_a_hidden_folder_opens_it_but_not_what_a_table_names_in_it(tmp_path: Path) -> None:
    place_files(tmp_path, ".config/x", ".config/fish/config.fish", ".github/workflows/x.yml")
    opened = [tmp_path, tmp_path / ".config", tmp_path / ".github"]
    assert GuardedPaths.find(tmp_path, tmp_path).closed(opened) == (tmp_path / ".config/fish",)


def test_a_link_in_a_guarded_folder_is_no_open_part_of_it(tmp_path: Path) -> None:
    place_files(tmp_path, ".cargo/config.toml", ".ssh/config")
    (tmp_path / ".cargo/registry").symlink_to("../.ssh")
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert guarded.open == ()
    assert set(guarded.to_protect(())) == {tmp_path / ".cargo", tmp_path / ".ssh"}


def test_a_command_of_the_home_is_guarded_where_its_link_leads(tmp_path: Path) -> None:
    tool, other = tmp_path / ".local/share/a-tool/bin/run", tmp_path / "tools" / "x"
    place_files(tmp_path, ".local/share/a-tool/bin/run", "tools/x", ".local/bin/own")
    (tmp_path / "bin").mkdir()
    (tmp_path / ".local/bin/run").symlink_to(tool)
    (tmp_path / "bin/x").symlink_to(other)
    assert {tool, other} <= set(GuardedPaths.find(tmp_path, tmp_path).to_protect(()))
    share = tmp_path / ".local/share"
    assert GuardedPaths.find(share, tmp_path).to_protect(()) == (tool,)


def test_a_folder_that_nobody_may_list_is_looked_at_name_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".github/workflows").mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", lambda folder: os.listdir(os.devnull))
    kept = GuardedPaths.find(tmp_path, tmp_path / "no-home").existing
    assert kept == (tmp_path / ".github", tmp_path / ".github/workflows")


def test_names_are_found_that_a_file_system_takes_for_those_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on one that knows no case: there `.BASHRC` is what a shell runs, and every look for `.bashrc` finds it."""
    (tmp_path / ".BASHRC").touch()
    exists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: exists(path) or os.fspath(path).endswith("/.bashrc"))
    assert tmp_path / ".bashrc" in GuardedPaths.find(tmp_path, tmp_path / "no-home").existing


def test_of_more_hidden_names_than_are_examined_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "_MAX_AT_TOP", 5)
    place_files(tmp_path, ".envrc", *(f".x{number}rc" for number in range(10)))
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert not guarded.is_complete
    assert tmp_path / ".envrc" in guarded.existing


def test_what_runs_in_any_folder_stays_as_it_is_there(tmp_path: Path) -> None:
    """Also where no repository is; what a code host runs, it runs at the top of a repository alone."""
    places = [".hg", ".vscode", ".devcontainer", ".claude", ".envrc", ".mcp.json", ".gdbinit", ".npmrc", "CLAUDE.md"]
    for name in (*(f"a/b/{place}" for place in places), "c/.amplifier/settings.yaml", "a/.gitlab-ci.yml", "d/.vscodes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch() if "." in name.rpartition("/")[2][1:] else (tmp_path / name).mkdir()
    assert found(tmp_path) == {*(f"a/b/{place}" for place in places), "c/.amplifier/settings.yaml"}


def test_of_a_repository_only_what_git_runs_is_watched(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    assert set(GuardedPaths.find(tmp_path, tmp_path).watched) == {git / "hooks", git / "config"}


def test_so_are_those_of_repositories_however_many_folders_down(tmp_path: Path) -> None:
    make_repository(tmp_path / "one")
    make_repository(tmp_path / "a" / "b" / "c")
    make_repository(tmp_path / "a" / "b" / "c" / "d" / "e" / "f")
    assert found(tmp_path) == {"one/.git", "a/b/c/.git", "a/b/c/d/e/f/.git"}


def test_a_submodule_is_guarded_where_its_git_folder_really_is(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    make_git_folder(git / "modules" / "lib" / "x")
    (tmp_path / "lib" / "x").mkdir(parents=True)
    (tmp_path / "lib" / "x" / ".git").write_text("gitdir: ../../.git/modules/lib/x\n")
    assert found(tmp_path) == {".git", "lib/x/.git", ".git/modules/lib/x"}
    assert set(GuardedPaths.find(tmp_path, tmp_path).to_protect([])) == {git, tmp_path / "lib/x/.git"}


def test_a_worktree_is_guarded_with_what_says_where_its_repository_is(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "main")
    own = git / "worktrees" / "w"
    own.mkdir(parents=True)
    for name, content in (("HEAD", "ref: refs/heads/w\n"), ("commondir", "../.."), ("gitdir", "")):
        (own / name).write_text(content)
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {own}\n")
    assert found(tmp_path) == {"main/.git", "w/.git", "main/.git/worktrees/w"}


def test_what_a_git_file_points_to_is_guarded_wherever_it_is(tmp_path: Path) -> None:
    make_git_folder(tmp_path / "store" / "of-app")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / ".git").write_text("gitdir: ../store/of-app\n")
    assert found(tmp_path) == {"app/.git", "store/of-app"}


@pytest.mark.parametrize("head", ["ref: refs/heads/main\n", "a" * 40 + "\n", None])
def test_a_bare_repository_is_guarded_as_a_whole(head: str | None, tmp_path: Path) -> None:
    bare = make_git_folder(tmp_path / "bare.git")
    (bare / "HEAD").unlink()
    if head is None:
        (bare / "HEAD").symlink_to("refs/heads/main")
    else:
        (bare / "HEAD").write_text(head)
    assert found(tmp_path) == {"bare.git"}


def test_a_folder_of_gits_that_is_granted_itself_is_open_and_watched(tmp_path: Path) -> None:
    for git in (make_git_folder(tmp_path / "bare.git"), make_repository(tmp_path / "app")):
        make_git_folder(git / "modules" / "lib")
        guarded = GuardedPaths.find(git, tmp_path)
        assert guarded.to_protect([git]) == ()
        assert {git / "hooks", git / "config"} <= set(guarded.watched)


def test_a_repository_stays_guarded_in_a_folder_that_looks_like_a_bare_one(tmp_path: Path) -> None:
    bare = make_git_folder(tmp_path / "work")
    app = make_repository(bare / "app")
    assert GuardedPaths.find(bare, tmp_path).to_protect([bare]) == (app,)


@pytest.mark.parametrize("planted", [("HEAD", "objects", "refs"), ("HEAD", "commondir", "gitdir")])
def test_a_folder_that_was_made_to_look_like_gits_hides_nothing_below_it(
    planted: tuple[str, ...], tmp_path: Path
) -> None:
    make_repository(tmp_path / "projects" / "app")
    make_repository(tmp_path / "projects" / "objects" / "other")
    make_git_folder(tmp_path / "app" / ".git" / "modules" / "lib")
    make_git_folder(tmp_path / "app" / ".git")
    before = found(tmp_path)
    assert {"projects/app/.git", "projects/objects/other/.git", "app/.git/modules/lib"} <= before
    for folder in (tmp_path, tmp_path / "projects", tmp_path / "app" / ".git" / "modules"):
        for name in planted:
            (folder / name).mkdir(exist_ok=True)
    assert found(tmp_path) >= before
    # A folder with all these names is not git's yet: others may go on working in it.
    assert not found(tmp_path) & {"projects"}


def test_a_folder_named_as_gits_by_configuration_is_guarded(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "config").write_text("[core]\n\thooksPath = tools/hooks\n")
    make_git_folder(tmp_path / "tools" / "hooks")
    place_files(tmp_path, "x/.git")
    (tmp_path / "x" / ".git").write_text("gitdir: ../tools/hooks\n")
    assert "tools/hooks" in found(tmp_path)


def test_the_objects_of_a_bare_repository_are_looked_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = make_git_folder(tmp_path / "a.git")
    for number in range(30):
        (bare / "objects" / f"{number:02x}").mkdir()
    make_repository(tmp_path / "b" / "c" / "d")
    monkeypatch.setattr(guarding, "_MAX_ENTRIES", 30)
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert {bare, tmp_path / "b/c/d/.git"} <= set(guarded.existing)
    assert not guarded.is_complete


@each_row(
    "content",
    [
        b"",
        b"gitdir:",
        b"gitdir: a\0b",
        b"gitdir: /etc",
        b"\xff" * 10_000,
        b"gitdir: " + b"a" * 300,
        b"gitdir: /" + b"a" * 300,
    ],
    ids=lambda content: content[:16],
)
def test_a_git_file_of_any_content_is_guarded_itself(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert found(tmp_path) == {".git"}


def test_a_git_folder_that_is_none_is_guarded_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert found(tmp_path) == {".git"}


def test_start_up_files_are_guarded_at_the_top_and_in_the_home_folder(tmp_path: Path) -> None:
    for place in (".bashrc", ".envrc", ".vscode/tasks.json", "home/me/.profile", "deep/.bashrc", "home/me/.ssh/config"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    assert found(tmp_path, tmp_path / "home" / "me") == {
        *(".bashrc", ".envrc", ".vscode", "home/me/.profile", "home/me/.ssh"),
    }


def test_what_is_at_home_and_outside_the_folder_is_none_of_its_business(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".profile").touch()
    (tmp_path / "work").mkdir()
    assert found(tmp_path / "work", tmp_path / "home") == set()


def test_the_home_in_a_granted_folder_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "_MAX_ENTRIES", 5)
    for number in range(10):
        (tmp_path / f"a{number}").mkdir()
    for name in (".gdbinit", ".codex", ".hgrc", ".git"):
        (tmp_path / "home/me" / name).mkdir(parents=True)
    guarded = GuardedPaths.find(tmp_path, tmp_path / "home/me")
    assert {path.name for path in guarded.existing} == {".gdbinit", ".codex", ".hgrc", ".git"}


def test_where_links_from_around_a_folder_lead_is_guarded_in_it(tmp_path: Path) -> None:
    """As in a folder of dotfiles, or where a repository keeps the target of a link in a part of it."""
    home, dotfiles = tmp_path / "home", tmp_path / "home/dotfiles"
    for name in ("nvim", "claude", "fish"):
        (dotfiles / "config" / name).mkdir(parents=True)
    (dotfiles / "bashrc").touch()
    for name, target in ((".bashrc", "dotfiles/bashrc"), (".config", "dotfiles/config"), (".zshrc", "dotfiles/none")):
        (home / name).symlink_to(target)
    (home / ".claude").symlink_to("dotfiles/config/claude")
    assert found(dotfiles, home) == {"bashrc", "config", "config/nvim", "config/claude", "config/fish"}
    assert found(dotfiles) == set()
    assert found(dotfiles / "config/nvim", home) == set()

    make_repository(tmp_path / "work")
    (tmp_path / "work/conf").mkdir()
    (tmp_path / "work/conf/envrc").touch()
    (tmp_path / "work/.envrc").symlink_to("conf/envrc")
    assert found(tmp_path / "work/conf", home) == {"envrc"}


def test_what_a_grant_opens_is_named_by_its_runner(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    git = make_repository(work)
    (git / "config").write_text("[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../more.cfg\n")
    place_files(work, "tools/hooks/pre-push", "tools/build", "more.cfg", "conf/envrc", "sub/.vscode/tasks.json")
    (work / ".envrc").symlink_to("conf/envrc")
    make_repository(home / "other")

    def opened(path: Path) -> str:
        return guarding.runner_opened(path, work, home)

    for path in ("tools/hooks", "tools/hooks/pre-push", "more.cfg"):
        assert opened(work / path) == "a program of yours, such as git,", path
    assert opened(work / "conf/envrc") == "your shell, when it enters the folder,"
    assert opened(work / "sub/.vscode/tasks.json") == "your editor, when it opens the folder,"
    for path in (".git", ".git/hooks", ".git/config"):
        assert opened(work / path) == opened(home / "other" / path) == "your next git command", path
    assert opened(home / ".config/fish/conf.d") == "your next shell"
    for folder in (work, work / "tools", work / "tools/build", work / "conf", home / "other"):
        assert opened(folder) == "", folder


def test_the_folder_of_a_start_up_file_may_itself_be_what_is_granted(tmp_path: Path) -> None:
    (tmp_path / ".config" / "autostart").mkdir(parents=True)
    assert found(tmp_path / ".config", tmp_path) == {"autostart"}
    assert found(tmp_path / ".config" / "autostart", tmp_path) == set()


def test_a_folder_with_more_in_it_than_is_looked_at_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "_MAX_ENTRIES", 20)
    make_repository(tmp_path / "z")
    for number in range(30):
        (tmp_path / f"file{number}").touch()
    (tmp_path / ".bashrc").touch()
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert not guarded.is_complete
    assert guarded.existing == (tmp_path / ".bashrc",)


def test_a_folder_too_deep_to_be_named_is_told_of(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(40):  # a path of more characters than the kernel takes, made a step at a time
        os.mkdir("d" * 120, dir_fd=at)
        below = os.open("d" * 120, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert not GuardedPaths.find(tmp_path, tmp_path).is_complete
    shutil.rmtree(tmp_path)


# -- what configuration names --------------------------------------------------------------


def place_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_hooks_and_configuration_named_by_a_repository_are_guarded(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "p")
    place_files(tmp_path, "p/tools/hooks/pre-commit", "more.cfg", "p/work.cfg", "elsewhere/pre-push", "tools/hooks/x")
    (git / "config").write_text("[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../../more.cfg\n")
    (git / "config.worktree").write_text('[includeIf "gitdir:~/x/"]\n\tpath = "../work.cfg"\n')
    (tmp_path / "more.cfg").write_text(f"[core]\n\thookspath = {tmp_path}/elsewhere\n[include]\npath = none.cfg\n")
    assert found(tmp_path) == {
        *("p/.git", "p/tools/hooks", "more.cfg", "p/work.cfg", "elsewhere"),
    }


def test_files_named_by_worktree_user_or_outer_repository_are_guarded(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "main")
    own = git / "worktrees" / "w"
    own.mkdir(parents=True)
    (git / "config").write_text("[core]\nhooksPath = granted/hooks\n")
    for name in ("HEAD", "commondir", "gitdir"):
        (own / name).touch()
    place_files(tmp_path, "main/granted/hooks/x", "w/granted/hooks/x", "dotfiles/git.cfg", "home/.gitconfig")
    (tmp_path / "w" / ".git").write_text(f"gitdir: {own}\n")
    (tmp_path / "home" / ".gitconfig").write_text("[include]\npath = ../dotfiles/git.cfg\n")
    assert found(tmp_path / "main" / "granted") == {"hooks"}
    assert found(tmp_path / "w") == {".git", "granted/hooks"}
    assert found(tmp_path / "w" / "granted") == {"hooks"}
    assert found(tmp_path / "dotfiles", tmp_path / "home") == {"git.cfg"}
    assert found(tmp_path / "dotfiles") == set()


def test_the_users_configuration_is_found_where_the_environment_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(tmp_path / "p")
    place_files(tmp_path, "settings/git/config", "settings/fish/config.fish", "tools/x", "p/hooks/x")
    (tmp_path / "settings/git/config").write_text("[core]\nhooksPath = ../tools\nhooksPath = hooks\n")
    repository = {"p/.git"}
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    assert found(tmp_path) == repository
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert found(tmp_path) == {*repository, "settings/git", "settings/fish", "tools", "p/hooks"}
    monkeypatch.setenv("XDG_CONFIG_HOME", "settings")
    assert not GuardedPaths.find(tmp_path, tmp_path).is_complete


def test_hooks_are_named_from_the_working_tree_that_configuration_names(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "p")
    place_files(tmp_path, "tree/hooks/x", "p/hooks/x", "old/hooks/x")
    (git / "config").write_text("[core]\nhooksPath = hooks\nworktree = ../../old\nworktree = ../../tree\n")
    assert found(tmp_path) == {"p/.git", "p/hooks", "tree/hooks"}


@pytest.mark.skipif(os.geteuid() != 0, reason=f"user {os.geteuid()} may not give a folder to another")
def test_another_users_outer_repository_is_ignored(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "config").write_text("[core]\nhooksPath = granted/src\n")
    place_files(tmp_path, "granted/src/x")
    assert found(tmp_path / "granted") == {"src"}
    os.chown(git, 65534, 65534)
    assert found(tmp_path / "granted") == set()


def test_hooks_in_the_granted_folder_itself_are_told_of(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "config").write_text("[core]\nhooksPath = .\n")
    assert not GuardedPaths.find(tmp_path, tmp_path).is_complete


@pytest.mark.costly
@pytest.mark.parametrize(
    "config",
    [
        b"[core]\nhooksPath = a\0b\n[include]\npath = " + b"x/" * 3000 + b"\npath = config\npath = config\n",
        b"[include]\n" + b"path = config\n" * 1000,
        b"[include]\n" + b"".join(b"path = c%d\n" % number for number in range(2000)),
        b"[core\n",
        b'[core]\nhooksPath = "\n',
        b"#" * 300_000,
    ],
    ids=["loops", "doubling", "many", "header", "quote", "long"],
)
def test_configuration_that_is_not_read_to_its_end_is_told_of(config: bytes, tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "config").write_bytes(config)
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert not guarded.is_complete
    assert git in guarded.existing


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/tty", path)])
def test_what_is_no_file_is_no_configuration(make: Callable[[Path], None], tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "config").unlink()
    make(git / "config")
    assert found(tmp_path) == {".git"}


def test_folders_of_dependencies_are_not_searched(tmp_path: Path) -> None:
    make_repository(tmp_path / "node_modules" / "x")
    assert found(tmp_path) == set()


def test_links_to_folders_are_not_followed_in_the_search(tmp_path: Path) -> None:
    make_repository(tmp_path / "outside")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "work" / "self").symlink_to(".")
    assert found(tmp_path / "work") == set()


# -- what is to be protected ---------------------------------------------------------------


def test_all_of_it_is_protected_but_what_was_granted_itself(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert guarded.to_protect([]) == guarded.to_protect([tmp_path, git / "hooks"]) == (git,)
    assert guarded.to_protect([git, tmp_path]) == ()


def test_of_a_link_what_it_leads_to_is_protected_when_it_is_inside(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "bashrc").touch()
    (tmp_path / ".bashrc").symlink_to("dotfiles/bashrc")
    (tmp_path / ".profile").symlink_to("/etc/profile")
    (tmp_path / ".zshrc").symlink_to("nowhere")
    (tmp_path / ".vim").symlink_to(".")
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert len(guarded.existing) == 4
    assert guarded.to_protect([]) == (tmp_path / "dotfiles" / "bashrc",)
    assert guarded.to_protect([tmp_path / "dotfiles" / "bashrc"]) == ()


# -- links on the way ----------------------------------------------------------------------


def links(folder: Path, granted: Iterable[Path] = ()) -> set[str]:
    held = GuardedPaths.find(folder, folder).links_to_hold(tuple(granted))
    return {str(link.relative_to(folder)) for link in held}


def test_each_link_on_the_way_to_a_guarded_place_is_held(tmp_path: Path) -> None:
    for name in ("conf/fish", "dotfiles", "app/.git"):
        (tmp_path / name).mkdir(parents=True)
    targets = {
        ".config": "conf",
        ".bashrc": "dotfiles/../chained",
        "chained": "dotfiles/bashrc",
        "dotfiles/bashrc": "/etc/bash.bashrc",
        "app/.husky": "../conf",
        ".vim": ".vim",
        "free": "dotfiles",
    }
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)
    assert links(tmp_path) == {*targets} - {"free"}


def test_links_in_what_is_kept_or_granted_are_not_held_again(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (git / "hooks").rename(git / "scripts")
    (git / "hooks").symlink_to("scripts")
    assert links(tmp_path) == set()
    assert links(tmp_path, [git]) == set()


def test_links_by_which_git_comes_to_a_repository_are_held(tmp_path: Path) -> None:
    git = make_repository(tmp_path / "store")
    (git / "config").write_text("[core]\n\thooksPath = way/to/hooks\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/real/to/hooks").mkdir(parents=True)
    (tmp_path / "tree/way").symlink_to("real")
    (tmp_path / "by").symlink_to("store")
    (tmp_path / "tree/.git").write_text("gitdir: ../by/.git\n")
    assert links(tmp_path) == {"by", "tree/way"}
    (tmp_path / "tree/.git").unlink()
    (tmp_path / "tree/.git").symlink_to("../by/.git")
    assert links(tmp_path) == {"by", "tree/way", "tree/.git"}
    (tmp_path / "tree/.git").unlink()
    (tmp_path / "file").write_text("gitdir: ../by/.git\n")
    (tmp_path / "tree/.git").symlink_to("../file")
    assert links(tmp_path) == {"by", "tree/way", "tree/.git"}


def test_a_link_into_another_granted_folder_protects_its_end_there(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (there / "envrc").touch()
    (here / ".envrc").symlink_to("../there/envrc")
    guarded = GuardedPaths.find(here, tmp_path)
    assert guarded.to_protect([here]) == ()
    assert guarded.to_protect([here, there]) == (there / "envrc",)


def test_hooks_that_are_links_are_protected_where_they_lead(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/check").touch()
    shutil.rmtree(git / "hooks")
    (git / "hooks").mkdir()
    (git / "hooks/pre-commit").symlink_to("../../way/check")
    (tmp_path / "way").symlink_to("scripts")
    guarded = GuardedPaths.find(tmp_path, tmp_path)
    assert guarded.to_protect([tmp_path]) == (git, tmp_path / "scripts/check")
    assert guarded.links_to_hold([tmp_path]) == (tmp_path / "way",)
    assert guarded.to_protect([tmp_path, git]) == ()
    shutil.rmtree(git / "hooks")
    (git / "hooks").symlink_to("../scripts")
    assert set(GuardedPaths.find(tmp_path, tmp_path).to_protect([tmp_path])) == {git, tmp_path / "scripts"}
