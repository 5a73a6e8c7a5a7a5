"""How code of each kind of source is got; `SUPPLIES` in `provisioner` has a class for each member of `uri.KINDS`."""
