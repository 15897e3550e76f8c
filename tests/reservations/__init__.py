"""Stories of allocating from reservations: objects are created, and the stored objects compared."""
