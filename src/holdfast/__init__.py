"""Holdfast: a Kubernetes scheduler and resource control plane that keeps its promises."""
