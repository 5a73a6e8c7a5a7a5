"""Run one server by itself, as OpenAI's: `python -m vendors.serve --script file.json [--tls FOLDER]`.

The folder of the tests has to be on the path. Prints one line of JSON, `{"url": …, "authority": …}`, as soon as it
listens; the authority is the file of the certificate to trust, of a server over TLS. Ends on SIGINT or SIGTERM, or when
its standard input closes where `--with-stdin` says so.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer


def main() -> int:
    """Serve until told to end; return the exit code."""
    parser = argparse.ArgumentParser(description="Play a script as a vendor of models would.")
    parser.add_argument("--script", type=Path, required=True, help="a JSON file, as vendors.script describes it")
    parser.add_argument("--tls", type=Path, metavar="FOLDER", help="speak TLS, with certificates in this folder")
    parser.add_argument("--with-stdin", action="store_true", help="end when standard input closes")
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    script = Script.of(json.loads(given.script.read_text(encoding="utf-8")))
    tls, authority = None, None
    if given.tls is not None:
        from host.egress.certificates import TestAuthority  # needs `cryptography`, as a server over http does not

        signer = TestAuthority(given.tls)
        tls, authority = signer.server("127.0.0.1"), str(signer.file)
    with VendorServer(script, OpenAIDialect(script.quirks), tls=tls) as server:
        print(json.dumps({"url": server.url, "authority": authority}), flush=True)
        if given.with_stdin:
            threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
