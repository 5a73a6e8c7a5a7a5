"""What shape a mount plan has to have."""

from paddock_sdk.validation.mount_plan import *
from paddock_sdk.validation.result import ValidationCheck as ValidationCheck
