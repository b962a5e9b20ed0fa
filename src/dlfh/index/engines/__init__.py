"""Engines: databases that hold the items of an index."""
