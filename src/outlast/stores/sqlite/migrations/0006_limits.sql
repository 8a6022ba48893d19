-- What is known of limited resources. Times are seconds since the epoch here: a rate may need less than a millisecond.
CREATE TABLE resource_limits (
    resource     TEXT    PRIMARY KEY,
    rate         REAL,                   -- settings of who asked last: starts per second
    burst        INTEGER NOT NULL,
    concurrency  INTEGER,
    retries      REAL,                   -- per second
    retry_burst  INTEGER NOT NULL,
    tat          REAL    NOT NULL,       -- when all starts are paid for at the rate
    spread       REAL    NOT NULL,       -- the next place for who came too early for the rate
    spread_rate  REAL,                   -- by which those places were given
    slot_spread  REAL    NOT NULL,       -- the next place for who found no slot
    retry_tat    REAL    NOT NULL,
    retry_spread REAL    NOT NULL,       -- the next place for who has failed just now
    retry_again  REAL    NOT NULL,       -- the next place for a retry that came too early
    retry_rate   REAL,
    mean         REAL    NOT NULL,       -- seconds that a task needs
    asked_at     REAL    NOT NULL
) STRICT, WITHOUT ROWID;

-- Taken while its task is running by this epoch. What is not is deleted by the next who asks.
CREATE TABLE resource_slots (
    task_id  INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    resource TEXT    NOT NULL
) STRICT;
CREATE INDEX resource_slots_resource ON resource_slots (resource);

-- Tasks of Celery's, also those that are over: a message that comes twice is known by its key.
CREATE INDEX task_queue_celery ON task_queue (unique_key) WHERE unique_key >= 'celery:' AND unique_key < 'celery;';
