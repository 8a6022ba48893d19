-- Locked until the step is written: nobody else steps, and nobody ends it in between.
SELECT --replay--, bound
FROM outlast.replays WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'running'
FOR UPDATE
