"""What a model may be able to do."""

from paddock_sdk.contract.capabilities import *
