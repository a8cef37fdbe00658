"""The coordinator: one leader moves every workspace toward what its user wants; any number of standbys wait."""
