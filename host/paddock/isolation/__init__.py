"""An authorised module's sandbox: its profile, environment and network. It decides, and starts no module."""
