"""What is looked at to see whether all is well, for `codehub doctor` and for the administrator's page alike."""
