"""VolumeBinding: pods go where their volumes are, or can be, and volumes become theirs.

Lives here: the plugin, the choice of volumes for claims over all nodes at once (``choice``), the
writes that bind them (``writing``). May not live here: what volumes there are and what is promised
of them (that is ``columns.volumes``), I/O.
"""

from holdfast.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
