-- First in a turn of several statements: until its end the worker cannot be struck off. Heartbeats may pass.
SELECT FROM holdfast.workers WHERE id = %(worker_id)s FOR KEY SHARE
