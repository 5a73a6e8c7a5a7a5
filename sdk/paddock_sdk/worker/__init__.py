"""The code that runs inside a module process: the driver of its socket and the session as the module sees it."""
