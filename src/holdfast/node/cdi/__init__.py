"""The Container Device Interface: what a container needs to use a device, in files by drivers.

Lives here: the types of CDI specs, their rules, reading and writing files, resolving qualified
names (``vendor/class=name``) to container edits. May not live here: applying the edits to a
container (``agent``), any knowledge of claims or drivers.
"""
