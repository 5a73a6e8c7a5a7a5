"""What a worker with a network finds in it: where its connections lead, and the files and variables clients go by.

The files are written once for a worker, into a folder that only the host may write to; nothing is opened or started.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock_sandbox.network import GATEWAY
from paddock_sandbox.profile import IsolationLevel

# Where distributions keep the certificates they trust, for interpreters whose OpenSSL was built to look elsewhere.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")  # inside; what curl and git are built to read
_RESOLVER_FILES: Final[Mapping[str, str]] = {
    # No search list, and no second try: whatever is not granted is answered at once.
    "resolv.conf": f"nameserver {GATEWAY}\noptions ndots:1 timeout:5 attempts:1\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "host.conf": "multi on\n",
}
# Each the name that some family of clients knows the file of trusted certificates by.
_CERTIFICATE_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class WorkerNetwork:
    """`ports` may be connected to; `files` are shown, each source at its target; `environ` is added to the worker's."""

    ports: tuple[int, ...]
    files: tuple[tuple[Path, Path], ...]
    environ: Mapping[str, str]

    @classmethod
    def lay_out(
        cls, folder: Path, level: IsolationLevel, ports: tuple[int, ...], proxy_url: str, extra_certificates: str = ""
    ) -> Self:
        """Write the files into `folder`, which is made, for a worker at `level`.

        `proxy_url` is where the host's proxy is reached from inside, `extra_certificates` (PEM) are trusted besides the
        machine's own.
        """
        folder.mkdir(mode=0o755)
        certificates = folder / "certificates.pem"
        certificates.write_text(_trusted_here() + extra_certificates, encoding="utf-8")
        files = [(certificates, certificates)]
        if level in LEVELS_WITH_NAMESPACES:
            files = [(certificates, _CERTIFICATES)]
            for name, text in _RESOLVER_FILES.items():
                (folder / name).write_text(text, encoding="utf-8")
                files.append((folder / name, Path("/etc") / name))
        environ = dict.fromkeys(_CERTIFICATE_VARIABLES, os.fspath(files[0][1]))
        for name in _PROXY_VARIABLES:
            environ |= {name: proxy_url, name.lower(): proxy_url}
        environ |= {"NO_PROXY": "", "no_proxy": ""}
        return cls(ports, tuple(files), environ)


def _trusted_here() -> str:
    """Return the certificates that the host's own connections trust, or none where there is no such file."""
    paths = ssl.get_default_verify_paths()  # heeds SSL_CERT_FILE, by which an operator names a bundle
    candidates = (paths.cafile, *_BUNDLES)
    found = next((path for path in candidates if path and os.path.isfile(path)), None)
    if found is None:
        return ""
    text = Path(found).read_text(encoding="utf-8", errors="replace")
    return text if text.endswith("\n") else text + "\n"
