"""KubeSchedulerConfiguration: decode, default and validate it, and build profiles from it.

Lives here: the fields of the file and their validation, merging a user's plugins with the default
plugins, expanding them into extension points, loading the user's own plugins. May not live here:
the plugins themselves, the meaning of their arguments (each plugin reads its own), flags.

``file.load`` and ``reading.read`` return a ``Configuration``, or raise an error that lists every
mistake.
"""
