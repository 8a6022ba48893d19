-- First in a turn of several statements: until its end the worker cannot be struck off. Heartbeats may pass.
SELECT set_config('idle_in_transaction_session_timeout', '20s', true) FROM outlast.workers WHERE id = %(worker_id)s FOR KEY SHARE
