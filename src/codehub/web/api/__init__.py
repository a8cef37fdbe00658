"""The REST API, `/api/v1`: one file per kind of thing; each only translates between HTTP and one service."""
