"""The validators' checks, as tests to inherit from."""

from paddock_sdk.validation.members import check_on_session_ready as check_on_session_ready
from paddock_sdk.validation.structural import *
