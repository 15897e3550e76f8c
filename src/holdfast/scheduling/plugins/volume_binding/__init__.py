"""VolumeBinding: pods run where their volumes are or can be, and claims get bound.

Lives here: the plugin, the choice of volumes for claims over all nodes (``row_volumes``), the
writes that bind them (``volume_writes``). May not live here: storage objects and assumed bindings,
which are in ``state.volumes``, and I/O.
"""

from holdfast.scheduling.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
