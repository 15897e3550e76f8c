"""Fuzz the API server: send random requests and check that nothing breaks.

``kinds`` reads discovery and OpenAPI; ``seeds``, ``values`` and ``mutation`` generate objects,
``bodies`` encodes them, ``fuzzer`` generates requests, ``target`` is the cluster, ``checks`` checks
responses and the cluster, ``campaign`` combines these and ``run`` is the command:
``python tests/fuzz/run.py --requests 100000 --seed 1``.
"""
