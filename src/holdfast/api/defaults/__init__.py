"""What the API server fills in before an object is admitted, validated and stored.

Lives here: the defaults that belong to the schema of a built-in kind, written into the raw object
in place. They are the same for every user and need nothing but the object itself (and the time,
for taints of devices). May not live here: admission, which looks at other objects (service
accounts, priority classes, tolerations added to pods), and allocation (cluster addresses, ports).
Defaulting twice changes nothing, so that applying the same file twice finds nothing to do.
"""

from holdfast.api.defaults.kinds import default_object

__all__ = ["default_object"]
