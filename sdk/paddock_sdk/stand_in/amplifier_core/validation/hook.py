"""What a hook has to have."""

from paddock_sdk.validation.validators import HookValidator as HookValidator

from .base import *
