"""The HTTPS server of a node for the API server: logs, exec, attach and port-forward.

May not live here: starting and stopping containers (the runtime's task), and writes of API objects.
"""
