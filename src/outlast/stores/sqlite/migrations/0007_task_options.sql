-- Settings of one call, as a JSON object; NULL for most tasks. A dead letter keeps those of its task.
ALTER TABLE task_queue ADD COLUMN options TEXT;
ALTER TABLE dead_letter_queue ADD COLUMN options TEXT;
