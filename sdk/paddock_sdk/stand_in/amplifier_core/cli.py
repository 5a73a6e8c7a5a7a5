"""The command `amplifier-core`."""

from paddock_sdk.validation import VALIDATORS as VALIDATORS
from paddock_sdk.validation.command_line import *
from paddock_sdk.validation.command_line import main
from paddock_sdk.validation.result import ValidationResult as ValidationResult
from paddock_sdk.validation.validators import *

cli = main

if __name__ == "__main__":
    main()
