"""Long texts inside data, shortened, and secrets in it, replaced; by the shorter name."""

from .utils.truncate import *
