"""Eviction of the pods whose devices have a NoExecute taint, and the status of DeviceTaintRules.

``index`` keeps published taints and allocated claims; ``plan`` is pure; ``controller`` watches and
evicts.
"""
