"""Send the API server what no client should, and check that nothing breaks.

``kinds`` reads what the server publishes of itself; ``seeds``, ``values`` and ``mutation`` make
objects of it, ``bodies`` writes them, ``fuzzer`` chooses requests, ``target`` is the cluster they
are sent to, ``checks`` look at it afterwards, ``campaign`` ties these together and ``run`` is the
command: ``python tests/fuzz/run.py --requests 100000 --seed 1``.
"""
