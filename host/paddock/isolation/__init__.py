"""An authorised module's sandbox: its profile, environment and network. Decides, and starts nothing of a module's."""
