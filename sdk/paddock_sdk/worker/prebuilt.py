"""Do the first steps of every worker once, so that every process forked from here finds them done.

The contract's models put off building their validators until first use, and a logging handler compiles its format.
Imported in the template, this does it all for all workers.
"""

from __future__ import annotations

from pydantic import BaseModel

from paddock_sdk.contract import interfaces, message_models, models
from paddock_sdk.pydantic_plugins import disable_plugins
from paddock_sdk.worker.main import set_up_logging

disable_plugins()  # before the first validator: the imports above build none

for _source in (models, message_models, interfaces):
    for _model in vars(_source).values():
        if isinstance(_model, type) and issubclass(_model, BaseModel) and _model is not BaseModel:
            _model.model_rebuild()

set_up_logging()
