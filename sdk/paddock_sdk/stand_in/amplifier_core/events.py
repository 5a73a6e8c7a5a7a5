"""The names of the events modules agree on."""

from paddock_sdk.contract.events import *
