"""Run the validators of whichever contract package is found over modules, and print every check of each as JSON.

The first argument is a JSON object: the package's folder and the kind of each module, by its id.
"""

import asyncio
import json
import sys
from importlib import import_module


async def main() -> None:
    found = {}
    for module_id, (package, kind) in json.loads(sys.argv[1]).items():
        validator = getattr(import_module("amplifier_core.validation"), f"{kind.capitalize()}Validator")
        result = await validator().validate(package)
        found[module_id] = [[check.name, check.passed, check.severity, check.message] for check in result.checks]
    print(json.dumps(found))


asyncio.run(main())
