"""Build the contract's models once, so that every process forked from here has them ready.

The models put off building their validators until first use; imported in the template, this
does it for all workers.
"""

from __future__ import annotations

from pydantic import BaseModel

from paddock_sdk.contract import interfaces, message_models, models

for _source in (models, message_models, interfaces):
    for _model in vars(_source).values():
        if isinstance(_model, type) and issubclass(_model, BaseModel) and _model is not BaseModel:
            _model.model_rebuild()
