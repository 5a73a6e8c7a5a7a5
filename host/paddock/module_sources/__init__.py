"""Where the code of a plan's modules comes from: resolved, locked, updated."""
