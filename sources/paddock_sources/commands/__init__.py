"""The seam to programs that handle what strangers wrote, and how their output is bounded."""
