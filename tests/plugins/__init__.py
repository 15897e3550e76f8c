"""Whole decisions that show the effect of single plugins."""
