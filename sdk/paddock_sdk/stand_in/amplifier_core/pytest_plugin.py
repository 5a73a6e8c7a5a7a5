"""The pytest plugin for modules, under the name its entry point has."""

from paddock_sdk.validation.pytest_plugin import *
from paddock_sdk.validation.pytest_plugin import __all__ as __all__
