"""The Container Device Interface: drivers write to files what a container needs for a device.

Lives here: the types of CDI specs, their rules, reading and writing files, resolving qualified
names (``vendor/class=name``) to container edits. May not live here: applying the edits to a
container (``agent``), any knowledge of claims or drivers.
"""
