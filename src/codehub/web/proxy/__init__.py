"""The public port (ADR 8): to workspaces for those who may enter, to the API process for everything else."""
