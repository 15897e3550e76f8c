"""The test kit for classic DRA: builders, test drivers, the conformance suite, random claims."""
