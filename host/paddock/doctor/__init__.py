"""Find out what this machine can give modules, by doing it, and say what is missing and what would help."""

from __future__ import annotations

from paddock.doctor.diagnosis import CgroupFinding, Diagnosis, LevelFinding, LimitFinding
from paddock.doctor.examination import examine

__all__ = ["CgroupFinding", "Diagnosis", "LevelFinding", "LimitFinding", "examine"]
