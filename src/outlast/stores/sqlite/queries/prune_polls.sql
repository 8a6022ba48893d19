-- The walk back to the last line that stays has an end, however long the history is.
DELETE FROM source_polls INDEXED BY source_polls_source
WHERE source_id = :source_id
    AND id <= (
        SELECT id FROM source_polls INDEXED BY source_polls_source
        WHERE source_id = :source_id ORDER BY id DESC LIMIT 1 OFFSET :keep
    )
