"""How the kernel asks a person for permission."""

from paddock_sdk.contract.approval import *
