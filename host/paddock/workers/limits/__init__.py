"""Limits of a process tree: measured, and enforced by control groups or a watchdog."""
