"""Commands for classic DRA: the webhook for pods, conversion of manifests, and explanations."""
