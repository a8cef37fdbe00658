"""Services: one verb, one transaction. Everything that people or programs ask for is written here and nowhere else."""
