"""What a process tree may use: measured, and enforced by control groups or a watchdog."""
