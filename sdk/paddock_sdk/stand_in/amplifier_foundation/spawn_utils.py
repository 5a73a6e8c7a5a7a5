"""The models that sub-sessions are to use."""

from paddock_sdk.contract.model_pattern import *
