"""Classic DRA for the author of a driver: the driver's controller, its devices, its handles."""
