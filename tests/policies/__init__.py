"""Resource policies in a running cluster, with the numbered scenarios of the specification."""
