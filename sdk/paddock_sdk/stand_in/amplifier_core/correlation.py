"""Which events belong to one call of a language model."""

from paddock_sdk.kernel.correlation import *
