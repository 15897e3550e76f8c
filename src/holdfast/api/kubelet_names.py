"""Names and limits that the API server and the agent of a node use for their connection."""

API_SERVER_USER = "kube-apiserver-kubelet-client"
"""The user as which the API server connects to a node."""
CERTIFICATE_ANNOTATION = "holdfast.dev/kubelet-certificate"
"""On a Node: the certificate that signed that of its HTTPS server; no other is accepted then."""
ERROR_HEADER = "holdfast-error"
"""The error of a refused upgrade, percent-encoded: HTTP clients seldom keep its body."""
MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message of a WebSocket of ``exec``, ``attach`` or ``port-forward``."""
PING_SECONDS = 30.0
"""How often the side that serves a WebSocket asks whether its client is still there."""
