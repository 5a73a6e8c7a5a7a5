"""How a running session is asked to stop."""

from paddock_sdk.kernel.cancellation import *
