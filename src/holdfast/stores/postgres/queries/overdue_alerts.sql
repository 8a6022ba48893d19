SELECT key FROM holdfast.alerts AS last
WHERE delivered_at <= now() - make_interval(secs => %(after)s) AND kind <> 'recovered'
    AND NOT EXISTS (SELECT FROM holdfast.alerts AS later WHERE later.key = last.key AND later.id > last.id)
