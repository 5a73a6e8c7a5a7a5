"""What a context manager has to have."""

from paddock_sdk.validation.validators import ContextValidator as ContextValidator

from .base import *
