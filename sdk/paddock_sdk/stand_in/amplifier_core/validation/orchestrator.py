"""What an orchestrator has to have."""

from paddock_sdk.validation.validators import OrchestratorValidator as OrchestratorValidator

from .base import *
