"""Typed content for streaming interfaces."""

from paddock_sdk.contract.content_models import *
