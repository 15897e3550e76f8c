"""Checks of single kinds that only the API server makes.

Checks that other packages make too live in ``holdfast.api.validation``.
"""
