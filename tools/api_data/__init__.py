"""Readers of the sources of the generated API data; used at build time only."""
