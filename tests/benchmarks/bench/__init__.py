"""What calls, events, starts, memory, payloads and sources cost, beside references that run in between."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # what tests make repositories with
