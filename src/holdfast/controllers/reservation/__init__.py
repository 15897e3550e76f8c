"""Reservations: their status, what pods use of them, and the deletion of ended ones.

``plan`` and ``usage`` are pure; ``controller`` watches and writes; ``device_controller`` is a
separate controller, which reports reserved devices that are gone or unhealthy.
"""
