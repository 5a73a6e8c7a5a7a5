"""Ids of sub-sessions."""

from paddock_sdk.contract.tracing import *
