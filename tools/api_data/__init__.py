"""Readers of the sources the API data is generated from; build time only."""
