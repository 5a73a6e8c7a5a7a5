"""The targets of attacks: services, files and processes that notice any access."""
