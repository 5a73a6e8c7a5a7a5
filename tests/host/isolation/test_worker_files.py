"""What a worker with a network finds in it is the same wherever the host runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
import paddock_sandbox

_LAYS_OUT = """
import sys
from pathlib import Path
from paddock.isolation.network import WorkerNetwork
WorkerNetwork.lay_out(Path(sys.argv[1]), "ns", (443,), "http://198.18.0.1:3128", "extra\\n")
"""


@pytest.mark.costly
def test_certificates_are_written_as_they_are_read_whatever_the_locale(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# AC Ra\u00edz FNMT\n", encoding="utf-8")
    folders = {str(Path(package.__path__[0]).parent) for package in (paddock, paddock_sandbox)}
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "SSL_CERT_FILE": str(bundle)}
    argv = [sys.executable, "-c", _LAYS_OUT, str(tmp_path / "network")]
    environ["PYTHONPATH"] = os.pathsep.join([*folders, *sys.path])
    subprocess.run(argv, env=environ, check=True, timeout=60)
    certificates = (tmp_path / "network" / "certificates.pem").read_text(encoding="utf-8")
    assert certificates == "# AC Ra\u00edz FNMT\nextra\n"
