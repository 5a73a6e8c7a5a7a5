"""Notice module code's attempts that may have been refused, and keep them where the host can read them."""
