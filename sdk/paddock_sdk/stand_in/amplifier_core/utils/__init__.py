"""Small things that modules share: retries, and data made fit to be shown."""

from paddock_sdk.kernel.redaction import *
from paddock_sdk.kernel.retry import *
