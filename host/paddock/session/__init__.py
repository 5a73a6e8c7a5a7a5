"""One session as the host runs it: its modules, their rights, their failures and its end."""
