"""Files as YAML, JSON and TOML, read within bounds with the line of each part; YAML is edited too."""
