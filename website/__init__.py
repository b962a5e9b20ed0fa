"""The documentation site: sources, generated pages, and checks of the result."""
