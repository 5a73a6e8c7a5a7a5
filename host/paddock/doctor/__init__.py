"""Find out, by trying, what isolation and limits this machine provides, and report what is missing and the fixes."""

from __future__ import annotations

from paddock.doctor.diagnosis import CgroupFinding, Diagnosis, LevelFinding, LimitFinding
from paddock.doctor.examination import examine

__all__ = ["CgroupFinding", "Diagnosis", "LevelFinding", "LimitFinding", "examine"]
