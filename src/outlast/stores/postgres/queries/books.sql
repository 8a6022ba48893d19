-- What was ever, and the deltas that are not over.
SELECT event, sum(n)::bigint FROM outlast.task_flow WHERE span IN (-1, 0) GROUP BY event
