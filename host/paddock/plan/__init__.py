"""Mount plans: a person's text, checked and turned into values."""

from typing import Final

USUAL_PLAN: Final = "plan.yaml"  # of a folder, where no plan is named

EXTENDS: Final = "extends"
"""The key of a plan that names the bundles which it is put over."""
