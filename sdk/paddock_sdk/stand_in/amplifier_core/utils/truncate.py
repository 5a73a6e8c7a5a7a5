"""Long texts inside data, shortened, and secrets in it, replaced."""

from paddock_sdk.kernel.redaction import *
