"""What a module of each kind has to have, and the checks that tell."""

from paddock_sdk.validation.mount_plan import *
from paddock_sdk.validation.result import *
from paddock_sdk.validation.validators import *
