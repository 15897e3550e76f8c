"""Upstream's own test cases, run against Holdfast; README.md here says how to add some."""
