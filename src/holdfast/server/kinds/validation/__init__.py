"""Checks of single kinds that only the API server makes.

Checks that other packages also make are in ``holdfast.api.validation``.
"""
