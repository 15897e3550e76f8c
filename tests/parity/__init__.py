"""Upstream's test cases, run on Holdfast; README.md explains how to add some."""
