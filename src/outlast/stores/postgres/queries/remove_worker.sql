-- Waits for a turn of this worker that is under way; after it there is none.
DELETE FROM outlast.workers WHERE id = %(worker_id)s
