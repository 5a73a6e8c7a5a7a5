"""Act scenarios out in a session of whichever contract package is found; print what came of each as JSON.

Arguments: the folder of the scenarios' modules; a file with the plan and, by name, each scenario and what it is given.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path

from amplifier_core import AmplifierSession

FOLDER, ASKED = Path(sys.argv[1]), Path(sys.argv[2])
SECONDS = 60  # for one scenario; hit only by a hang


async def main(asked):
    logging.disable()
    sys.path.insert(0, str(FOLDER))
    found = {}
    async with AmplifierSession(asked["plan"], session_id=asked["session_id"]) as session:
        for name, (scenario, given) in asked["scenarios"].items():
            try:
                async with asyncio.timeout(SECONDS):
                    said = await session.execute(json.dumps({"scenario": scenario, "given": given}))
                found[name] = json.loads(said)
            except Exception as error:  # of this scenario alone
                found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


asyncio.run(main(json.loads(ASKED.read_text())))
