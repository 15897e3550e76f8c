"""KubeSchedulerConfiguration: read, defaulted, validated, made into profiles.

Lives here: the file's shape, what may be wrong with it, merging a user's plugins with the default
ones, expanding them into extension points, finding plugins of the user's own. May not live here:
what plugins do, what their arguments mean (each plugin reads its own), flags.

``file.load`` and ``reading.read`` answer with a ``Configuration``, or refuse naming every mistake.
"""
