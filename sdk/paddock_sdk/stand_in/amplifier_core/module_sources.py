"""Where a module's code is."""

from paddock_sdk.contract.module_sources import *
