-- But for groups that are snoozed or acknowledged now.
SELECT key FROM outlast.alerts AS last
WHERE delivered_at <= now() - make_interval(secs => %(after)s) AND kind <> 'recovered'
    AND NOT EXISTS (SELECT FROM outlast.alerts AS later WHERE later.key = last.key AND later.id > last.id)
    AND NOT EXISTS (
        SELECT FROM outlast.failure_groups AS known
        WHERE known.fingerprint = CASE
                WHEN starts_with(key, 'group:') THEN substr(key, 7) WHEN starts_with(key, 'growth:') THEN substr(key, 8)
            END
            AND NOT (--open--)
    )
