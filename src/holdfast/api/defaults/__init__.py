"""Defaults that the API server sets before an object is admitted, validated and stored.

Lives here: defaults of the built-in kinds, set in the raw object in place. They depend only on the
object (and the time, for device taints). May not live here: admission, which reads other objects
(service accounts, priority classes), and allocation of addresses and ports. Defaulting is
idempotent: applying the same file twice changes nothing.
"""

from holdfast.api.defaults.kinds import default_object

__all__ = ["default_object"]
