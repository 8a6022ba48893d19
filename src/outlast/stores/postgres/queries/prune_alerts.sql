-- The last of a matter that is not well stays: by it we know that it was told. Where it is well again the last goes only with
-- or after all the others: otherwise one of them would be the last.
WITH old AS MATERIALIZED (
    SELECT id FROM outlast.alerts AS one
    WHERE delivered_at < now() - make_interval(secs => %(seconds)s)
        AND (
            EXISTS (SELECT FROM outlast.alerts AS later WHERE later.key = one.key AND later.id > one.id)
            OR kind = 'recovered' AND NOT EXISTS (
                SELECT FROM outlast.alerts AS earlier
                WHERE earlier.key = one.key AND earlier.id < one.id
                    AND (earlier.delivered_at < now() - make_interval(secs => %(seconds)s)) IS NOT TRUE
            )
        )
    ORDER BY id
    FOR UPDATE
)
DELETE FROM outlast.alerts AS alert USING old WHERE alert.id = old.id
