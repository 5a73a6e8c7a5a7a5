"""What module code reached for and may not have got, noticed and kept where the host can read it."""
