"""Deciding through the real front, plugin by plugin."""
