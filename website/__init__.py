"""The documentation site: its sources from docs/, what is generated, and checks of what comes out."""
