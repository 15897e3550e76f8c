"""Allocating from reservations, story by story: objects in, objects out."""
