WHERE --meant--
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
