"""What `codehub doctor` looks at: each check is a function that returns findings and changes nothing."""
