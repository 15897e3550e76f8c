"""The programs that run on a node: its agent, and the drivers of its devices.

Lives here: ``agent`` (simulated nodes, and agents that do what a kubelet does), ``kubelet_api``
(messages of node plugins), ``cdi`` (container edits) and ``driverkit`` (a driver in Python, which
authors import as ``holdfast.driver``). May not live here: scheduling, controllers; agent and
drivers reach the cluster only through ``client``.
"""
