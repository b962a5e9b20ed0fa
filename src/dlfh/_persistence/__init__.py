"""Files that are written atomically and verified when they are read."""
