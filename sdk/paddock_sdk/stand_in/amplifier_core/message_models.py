"""The provider-independent envelope: messages, blocks, requests and responses."""

from paddock_sdk.contract.message_models import *
from paddock_sdk.contract.message_models import ContentBlockUnion, __all__

__all__ = [*__all__, "ContentBlockUnion"]
