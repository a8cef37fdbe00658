"""Scripts that run inside a workspace. Each stands alone: the standard library only, nothing of ours."""
