"""Plans as files: YAML, JSON and TOML, read and edited within bounds, with the line of each part."""
