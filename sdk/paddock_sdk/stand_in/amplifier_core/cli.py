"""The command `amplifier-core`."""

from __future__ import annotations

from paddock_sdk.validation.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
