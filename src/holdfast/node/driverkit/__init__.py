"""The kit for device drivers: its author writes inventory and prepare, the kit does the rest.

Lives here: a driver's side of the kubelet plugin interface: registration, DRAPlugin,
ResourceSlices, CDI files, the checkpoint of prepared claims; ``classic_dra``: drivers that allocate
claims themselves. Authors import ``holdfast.driver``. May not live here: the node's side
(``agent``), allocation of structured DRA (``state.devices``), anything that drivers do not need.
"""
