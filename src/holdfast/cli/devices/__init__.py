"""``holdfast devices``: the devices of a cluster, and which claims hold them.

Lives here: reading and printing. What is free or held is decided in ``holdfast.state.devices``.
"""
