DELETE FROM cycles INDEXED BY cycles_profile
WHERE profile = :profile
    AND id <= (
        SELECT id FROM cycles INDEXED BY cycles_profile
        WHERE profile = :profile ORDER BY id DESC LIMIT 1 OFFSET :keep
    )
