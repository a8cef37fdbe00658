"""Everything about a schema that two databases can be compared by, as readable lines."""

import psycopg

# One query per kind of thing; each yields (what, definition). Privileges are part of the definition.
_QUERIES = (
    """SELECT format('column %s.%s', c.relname, a.attname),
              concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
                        'default ' || pg_get_expr(d.adbin, d.adrelid), nullif(a.attidentity::text, ''),
                        'position ' || a.attnum, a.attacl::text)
       FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d
            ON d.adrelid = a.attrelid AND d.adnum = a.attnum
       WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped""",
    """SELECT format('relation %s', relname), concat_ws(' ', relkind, relacl::text)
       FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i'""",
    """SELECT format('constraint %s on %s', conname, conrelid::regclass), pg_get_constraintdef(oid)
       FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    """SELECT format('index %s', indexname), indexdef FROM pg_indexes WHERE schemaname = 'public'""",
    """SELECT format('trigger %s', tgname), concat_ws(' ', pg_get_triggerdef(oid), tgenabled)
       FROM pg_trigger WHERE NOT tgisinternal""",
    """SELECT format('function %s', oid::regprocedure), concat_ws(' ', pg_get_functiondef(oid), proacl::text)
       FROM pg_proc WHERE pronamespace = 'public'::regnamespace""",
    """SELECT format('type %s', t.typname), concat_ws(' ', string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder),
                                                      t.typacl::text)
       FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
       WHERE t.typnamespace = 'public'::regnamespace GROUP BY t.oid""",
    """SELECT format('default privileges of %s', defaclrole::regrole), defaclacl::text FROM pg_default_acl""",
)


def snapshot(database_url: str) -> dict[str, str]:
    with psycopg.connect(database_url) as conn:
        return {what: str(definition) for query in _QUERIES for what, definition in conn.execute(query).fetchall()}
