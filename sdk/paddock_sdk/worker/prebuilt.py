"""Do the first steps of every worker once, so that every process forked from here finds them done.

The contract's models put off building their validators until first use, a logging handler compiles its format, and the
filter of system calls is one of a few programs. Imported in the template, this does it all for all workers.
"""

from __future__ import annotations

from itertools import product

from pydantic import BaseModel

from paddock_sandbox.lockdown import filter_of
from paddock_sandbox.profile import ANY_PROGRAM, ISOLATION_LEVELS, SandboxProfile
from paddock_sdk.contract import interfaces, message_models, models
from paddock_sdk.worker.main import set_up_logging

for _source in (models, message_models, interfaces):
    for _model in vars(_source).values():
        if isinstance(_model, type) and issubclass(_model, BaseModel) and _model is not BaseModel:
            _model.model_rebuild()

set_up_logging()

for _level in ISOLATION_LEVELS:
    for _programs, (_counted, _bounded) in product(
        ((), (ANY_PROGRAM,)), ((True, False), (False, True), (False, False))
    ):
        try:
            filter_of(SandboxProfile(level=_level, programs=_programs), counts_memory=_counted, bounds_ipc=_bounded)
        except NotImplementedError:
            pass  # on such a machine the lockdown fails with the reason
