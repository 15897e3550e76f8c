"""Names and connection limits that node agents share with server, controllers and commands."""

NODE_USER = "system:node:"
"""The start of the name of a node's user; the name of the node follows."""
LEASE_NAMESPACE = "kube-node-lease"
"""The namespace of the leases of nodes; a lease has the name of its node."""
AGENT_LABEL = "holdfast.dev/agent"
"""The label of nodes, and of their leases, that an agent of Holdfast runs."""
SIMULATED = "simulated"
"""The value of this label for nodes that are simulated together."""
EMBEDDED = "embedded"
"""Its value for nodes that have a separate agent in the process of ``holdfast up``."""
STANDALONE = "standalone"
"""Its value for nodes whose agent is ``holdfast agent``."""
FAILED_ANNOTATION = "holdfast.dev/failed"
"""A node with this annotation reports nothing, and its agent starts and stops no pods."""


API_SERVER_USER = "kube-apiserver-kubelet-client"
"""The user as which the API server connects to a node."""
CERTIFICATE_ANNOTATION = "holdfast.dev/kubelet-certificate"
"""On a Node: the only certificate that may sign that of its HTTPS server."""
ERROR_HEADER = "holdfast-error"
"""The error of a refused upgrade, percent-encoded: HTTP clients seldom keep its body."""
MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message of a WebSocket of ``exec``, ``attach`` or ``port-forward``."""
PING_SECONDS = 30.0
"""The interval at which the server of a WebSocket pings its client."""
