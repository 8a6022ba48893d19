-- Settings of one call, as a JSON object; NULL for most tasks. A dead letter keeps those of its task.
ALTER TABLE {schema}task_queue ADD COLUMN options text;
ALTER TABLE {schema}dead_letter_queue ADD COLUMN options text;
