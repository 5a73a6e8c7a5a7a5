"""Retries with pauses that grow, by their shorter name."""

from paddock_sdk.kernel.retry import *
