"""columns."""
