"""The only place with SQL: migrations, the pool, and typed functions over the tables.

`migrate` brings the schema up to date, `pool` hands out connections that act as one of two database roles, the other
modules take such a connection. A module never opens a transaction of its own: one verb of the caller, one transaction.
"""
