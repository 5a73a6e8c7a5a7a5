"""What a tool has to have."""

from paddock_sdk.validation.validators import ToolValidator as ToolValidator

from .base import *
