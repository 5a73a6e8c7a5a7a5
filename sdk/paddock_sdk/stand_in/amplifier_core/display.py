"""How the kernel shows a message to a person."""

from paddock_sdk.contract.approval import DisplaySystem as DisplaySystem
