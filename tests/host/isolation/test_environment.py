"""A worker's environment is language and time zone, its own folder, and what was granted by name."""

from __future__ import annotations

from paddock.isolation.planner import environment_of
from paddock.plan.permissions import Permissions, grants_of, preset_grants
from paddock.policy.secrets.values import SecretValues
from support.rows import each_row

HOST = {
    "LANG": "de_DE.UTF-8",
    "TZ": "UTC",
    "HOME": "/home/me",
    "PATH": "/opt/evil",
    "API_KEY": "secret",
    "EDITOR": "vi",
}
ONE_PROCESSOR = {
    "CMAKE_BUILD_PARALLEL_LEVEL": "1",
    "GOMAXPROCS": "1",
    "JOBS": "1",
    "MAKEFLAGS": "-j1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHON_CPU_COUNT": "1",
    "RAYON_NUM_THREADS": "1",
    "UV_THREADPOOL_SIZE": "1",
}
OWN = {
    **ONE_PROCESSOR,
    "LANG": "de_DE.UTF-8",
    "TZ": "UTC",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "HOME": "/scratch",
    "TMPDIR": "/scratch",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
}


@each_row(
    ("grants", "more"),
    [
        ([], {}),
        (["EDITOR"], {"EDITOR": "vi"}),
        (["NOT_SET"], {}),
        (["EDITOR=ed", "EMPTY="], {"EDITOR": "ed", "EMPTY": ""}),
        (["A=b=c"], {"A": "b=c"}),
        (["PATH"], {"PATH": "/opt/evil"}),
        (["HOME=/data"], {"HOME": "/data"}),
    ],
)
def test_only_what_is_granted_is_added(grants: list[str], more: dict[str, str]) -> None:
    assert environment_of(Permissions(env=tuple(grants)), HOST, "/scratch") == {**OWN, **more}


def test_a_host_without_language_or_time_zone_passes_on_neither() -> None:
    assert set(environment_of(Permissions(), {}, "/scratch")) == OWN.keys() - {"LANG", "TZ"}


@each_row(("cpu_quota", "processors"), [(0.01, "1"), (1.0, "1"), (1.01, "2"), (4.0, "4")])
def test_what_starts_a_thread_for_each_processor_is_told_the_quota(cpu_quota: float, processors: str) -> None:
    environ = environment_of(Permissions(env=("GOMAXPROCS=7",)), {}, "/scratch", cpu_quota=cpu_quota)
    assert {environ[name] for name in ONE_PROCESSOR} == {processors, f"-j{processors}", "7"}


def test_a_variable_is_set_to_a_secret_or_its_placeholder() -> None:
    secrets = SecretValues({"KEY": "the-key", "HELD": "the-value", "OTHER": "x"})
    permissions = Permissions.model_validate(
        {
            "env": ["KEY=${KEY}", "AUTH=Bearer ${HELD}", "NOT=${OTHER}"],
            "secrets": ["KEY", {"name": "HELD", "inject": "a.example"}],
        }
    )
    environ = environment_of(permissions, {"KEY": "from the host"}, "/scratch", secrets)
    assert (environ["KEY"], environ["AUTH"], environ["NOT"]) == (
        "the-key",
        f"Bearer {secrets.placeholder('HELD')}",
        "${OTHER}",
    )
    assert "the-value" not in str(environ)


def test_each_preset_stands_for_its_table() -> None:
    tables = {name: (grants.read, grants.write, grants.run) for name, grants in preset_grants().items()}
    assert tables == {
        "isolated": ((), (), ()),
        "workspace-read": ((".", "!@secrets"), (), ()),
        "workspace": ((".", "!@secrets"), (".",), ()),
        "shell": ((".", "!@secrets"), (".",), ("*",)),
    }


def test_grants_by_family_stand_for_themselves() -> None:
    written = Permissions(read=("/data",))
    assert grants_of(written) is written
    assert grants_of(Permissions(preset="shell")) == preset_grants()["shell"]
