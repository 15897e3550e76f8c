"""Holdfast: a Kubernetes scheduler and control plane for reserved resources."""
