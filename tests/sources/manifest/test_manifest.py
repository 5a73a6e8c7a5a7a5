from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from failures import failing
from paddock_sources import ManifestError, ModuleManifest, SourceError
from sources.module_folder import BOOBY_TRAP, MOUNT, make_module


def read(root: Path, module_id: str = "tool-demo") -> ModuleManifest:
    return ModuleManifest.read(root, module_id)


def package(root: Path, name: str, init: str = MOUNT) -> Path:
    (root / name).mkdir(parents=True)
    (root / name / "__init__.py").write_text(init)
    return root / name


# -- what is read


def test_a_repository_root_tells_all_there_is(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo").resolve()
    manifest = read(root)
    assert manifest == ModuleManifest(
        root=root,
        package="amplifier_module_tool_demo",
        package_dir=root / "amplifier_module_tool_demo",
        import_root=root,
        name="amplifier-module-tool-demo",
        version="1.2.3",
        entry_points={"tool-demo": "amplifier_module_tool_demo:mount"},
        module="amplifier_module_tool_demo",
        attribute="mount",
        declared_kind=None,
        defines_mount=True,
    )


def test_the_package_itself_is_found_from_its_own_folder(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo").resolve()
    manifest = read(root / "amplifier_module_tool_demo")
    assert manifest.package == "amplifier_module_tool_demo"
    assert manifest.package_dir == root / "amplifier_module_tool_demo"
    assert manifest.import_root == root
    assert (manifest.name, manifest.version, dict(manifest.entry_points)) == (None, None, {})


def test_nothing_of_a_module_is_executed_or_imported(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo", init=BOOBY_TRAP + MOUNT)
    (root / "setup.py").write_text(BOOBY_TRAP)
    before = set(sys.modules)
    assert read(root).defines_mount is True
    assert "amplifier_module_tool_demo" not in set(sys.modules) - before


@pytest.mark.parametrize("group", ["amplifier.modules", "amplifier.tools"])
def test_both_groups_of_entry_points_name_a_package_of_another_name(tmp_path: Path, group: str) -> None:
    root = make_module(tmp_path / "repo", package="iteration_tracker", group=group)
    assert read(root).package == "iteration_tracker"


@pytest.mark.parametrize(
    ("target", "module", "attribute", "kind"),
    [
        ("amplifier_module_two:mount", "amplifier_module_two", "mount", "hook"),
        ("amplifier_module_two:mount_it", "amplifier_module_two", "mount_it", "hook"),
        ("amplifier_module_two.tool:mount", "amplifier_module_two.tool", "mount", "tool"),
        ("amplifier_module_two.deep.er : start", "amplifier_module_two.deep.er", "start", None),
        ("amplifier_module_two.deep", "amplifier_module_two.deep", "mount", None),
        ("amplifier_module_two.nowhere:mount", "amplifier_module_two", "mount", "hook"),
        ("amplifier_module_two:Class.mount", "amplifier_module_two", "mount", "hook"),
        ("another_package.tool:mount", "amplifier_module_two", "mount", "hook"),
    ],
)
def test_an_entry_point_says_what_of_a_package_mounts_the_module(
    tmp_path: Path, target: str, module: str, attribute: str, kind: str | None
) -> None:
    root = tmp_path / "repo"
    folder = package(root, "amplifier_module_two", '__amplifier_module_type__ = "hook"')
    (folder / "tool.py").write_text('__amplifier_module_type__ = "tool"')
    package(folder, "deep")
    (folder / "deep" / "er.py").write_text("")
    (root / "pyproject.toml").write_text(f'[project.entry-points."amplifier.modules"]\ntool-demo = "{target}"\n')
    manifest = read(root)
    assert (manifest.package, manifest.module, manifest.attribute) == ("amplifier_module_two", module, attribute)
    assert manifest.declared_kind == kind


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        (["amplifier_module_tool_demo", "amplifier_module_other"], "amplifier_module_tool_demo"),
        (["src/amplifier_module_tool_demo"], "amplifier_module_tool_demo"),
        (["amplifier_module_unlike_its_id"], "amplifier_module_unlike_its_id"),
        (["src/amplifier_module_unlike_its_id", "tests"], "amplifier_module_unlike_its_id"),
    ],
)
def test_a_package_is_found_by_name_without_a_pyproject(tmp_path: Path, packages: list[str], found: str) -> None:
    for name in packages:
        package(tmp_path / "repo", name)
    manifest = read(tmp_path / "repo")
    assert manifest.package == found
    assert manifest.import_root / manifest.package == manifest.package_dir


def test_an_entry_point_chooses_among_packages_unlike_the_id(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo", package="amplifier_module_b")
    package(root, "amplifier_module_a")
    assert read(root).package == "amplifier_module_b"


def test_a_repository_root_with_a_stray_init_is_still_searched(tmp_path: Path) -> None:
    root = make_module(tmp_path / "amplifier-module-tool-demo")
    (root / "__init__.py").write_text("")
    assert read(root).package == "amplifier_module_tool_demo"


def test_a_folder_without_init_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "repo" / "amplifier_module_tool_demo").mkdir(parents=True)
    with failing("ModuleLayoutError") as caught:
        read(tmp_path / "repo")
    assert caught.value.summary.endswith(": there is no package in it")
    assert "`amplifier_module_tool_demo/__init__.py`" in str(caught.value)


def test_several_packages_and_none_that_stands_out_are_an_error(tmp_path: Path) -> None:
    for name in ("amplifier_module_a", "amplifier_module_b"):
        package(tmp_path / "repo", name)
    with failing("ModuleLayoutError", "several packages could be it"):
        read(tmp_path / "repo")


@pytest.mark.parametrize("kind", ["tool", "provider", "hook", "orchestrator", "context", "resolver"])
def test_a_declared_kind_is_read(tmp_path: Path, kind: str) -> None:
    root = make_module(tmp_path / "repo", init=f'__amplifier_module_type__ = "{kind}"\n' + MOUNT)
    assert read(root).declared_kind == kind


@pytest.mark.parametrize("value", ['"gadget"', "5", '""', '"tool\\x1b"', "b'tool'"])
def test_a_declared_kind_outside_the_contract_is_refused(tmp_path: Path, value: str) -> None:
    root = make_module(tmp_path / "repo", init=f"__amplifier_module_type__ = {value}\n" + MOUNT)
    with pytest.raises(ManifestError, match="__amplifier_module_type__"):
        read(root)


def test_syntax_that_does_not_parse_is_left_for_the_worker_to_report(tmp_path: Path) -> None:
    manifest = read(make_module(tmp_path / "repo", init="def mount(:\n"))
    assert (manifest.declared_kind, manifest.defines_mount) == (None, None)


def test_a_version_that_is_computed_at_build_time_is_unknown(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo")
    (root / "pyproject.toml").write_text('[project]\nname = "x"\ndynamic = ["version"]\n')
    assert (read(root).name, read(root).version) == ("x", None)


# -- hostile folders


@pytest.mark.parametrize(
    ("pyproject", "said"),
    [
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[project", "not TOML"),
        (b"project = 5", "not a table"),
        (b"[project]\nentry-points = []", "not a table"),
        (b'[project.entry-points]\n"amplifier.modules" = 5', "not a table"),
        (b'[project.entry-points."amplifier.modules"]\nx = 5', "does not name a package"),
        (b'[project.entry-points."amplifier.modules"]\nx = "../../etc:mount"', "does not name a package"),
        (b'[project.entry-points."amplifier.modules"]\n"a\\nb" = "/x"', "does not name a package"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"x = " + b"9" * 10_000, "too long"),
        (b"#" * (256 * 1024 + 1), "larger than"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_pyproject_that_cannot_be_data_is_refused(tmp_path: Path, pyproject: bytes, said: str) -> None:
    root = make_module(tmp_path / "repo")
    (root / "pyproject.toml").write_bytes(pyproject)
    with pytest.raises(ManifestError, match=said) as caught:
        read(root)
    assert caught.value.path == root.resolve() / "pyproject.toml"
    assert all(line.isprintable() for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    "link",
    [
        "pyproject.toml",
        "amplifier_module_tool_demo/__init__.py",
        "amplifier_module_tool_demo",
        "amplifier_module_other",
    ],
)
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, link: str) -> None:
    outside = make_module(tmp_path / "outside")
    target = outside / link if link != "amplifier_module_other" else outside / "amplifier_module_tool_demo"
    root = make_module(tmp_path / "repo", package="plain")
    if "/" in link:
        (root / link).parent.mkdir()
    (root / link).unlink(missing_ok=True)
    (root / link).symlink_to(target)
    (root / "plain" / "__init__.py").unlink()
    with pytest.raises(ManifestError, match="leads out of the module's folder"):
        read(root)


def test_a_link_inside_the_tree_is_followed(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo", package="lib/amplifier_module_tool_demo").resolve()
    (root / "amplifier_module_tool_demo").symlink_to("lib/amplifier_module_tool_demo")
    manifest = read(root)
    assert manifest.package == "amplifier_module_tool_demo"
    assert manifest.import_root == root
    assert manifest.package_dir == root / "lib" / "amplifier_module_tool_demo"


@pytest.mark.parametrize("target", ["pyproject.toml", "nothing"])
def test_a_link_to_itself_or_to_nothing_is_refused(tmp_path: Path, target: str) -> None:
    root = make_module(tmp_path / "repo")
    (root / "pyproject.toml").unlink()
    (root / "pyproject.toml").symlink_to(target)
    with pytest.raises(ManifestError) as caught:
        read(root)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["pyproject.toml", "amplifier_module_tool_demo/__init__.py"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, name: str, make: object) -> None:
    root = make_module(tmp_path / "repo")
    (root / name).unlink()
    make(root / name)  # type: ignore[operator]
    with pytest.raises(ManifestError):
        read(root)


def test_an_enormous_init_is_refused(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo", init="#" * (2 * 1024 * 1024 + 1))
    with pytest.raises(ManifestError, match="larger than"):
        read(root)


def test_an_init_too_large_to_be_parsed_leaves_what_it_says_open(tmp_path: Path) -> None:
    manifest = read(make_module(tmp_path / "repo", init="def mount(): ...\n" + "#" * 256 * 1024))
    assert (manifest.declared_kind, manifest.defines_mount) == (None, None)


@pytest.mark.parametrize("declared", ["0x" + "f" * 10_000, "'" + "x" * 10_000 + "'", "b'" + "x" * 10_000 + "'"])
def test_a_declared_kind_that_is_enormous_is_refused_in_few_words(tmp_path: Path, declared: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(make_module(tmp_path / "repo", init=f"__amplifier_module_type__ = {declared}"))
    assert len(str(caught.value)) < 1000


@pytest.mark.costly
def test_a_folder_with_very_many_entries_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    for number in range(10_001):
        (root / str(number)).touch()
    with pytest.raises(ManifestError, match="more than 10000 entries"):
        read(root)


def test_names_with_control_characters_are_not_followed_or_shown_raw(tmp_path: Path) -> None:
    root = tmp_path / "re\npo\x1b[2J\u202e"
    package(root, "amplifier_module_tool\ndemo")
    with failing("ModuleLayoutError") as caught:
        read(root)
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert "\\x1b[2J\\u202e" in str(caught.value)


def test_names_that_are_not_utf8_do_not_disturb(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo", package="amplifier_module_x", group="nothing.of.ours")
    (root / os.fsdecode(b"amplifier_module_\xff")).mkdir()
    assert read(root).package == "amplifier_module_x"


@pytest.mark.parametrize("root", ["missing", "file", "nul\0"])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ManifestError):
        read(tmp_path / root)


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, may read everything")
def test_a_folder_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo")
    (root / "pyproject.toml").chmod(0)
    with pytest.raises(ManifestError, match="permission denied"):
        read(root)


@given(pyproject=st.binary(max_size=120) | st.text(max_size=120), init=st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_content_gives_a_manifest_or_a_source_error(tmp_path: Path, pyproject: bytes | str, init: bytes) -> None:
    folder = tmp_path / "amplifier_module_tool_demo"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_bytes(init)
    (tmp_path / "pyproject.toml").write_bytes(pyproject if isinstance(pyproject, bytes) else pyproject.encode())
    try:
        assert read(tmp_path).package == "amplifier_module_tool_demo"
    except SourceError as error:
        assert all(line.isprintable() for line in str(error).splitlines())
