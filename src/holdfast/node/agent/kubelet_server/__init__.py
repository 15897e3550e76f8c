"""What a node serves to the API server over HTTPS: logs, exec, attach and port-forward.

May not live here: starting and stopping containers, which is the runtime's, and anything that
writes API objects.
"""
