-- What is known of limited resources. Times are seconds since the epoch: the same
-- arithmetic serves every store.
--
-- A row is written at every ask: the free room keeps its versions on one page.
CREATE TABLE {schema}resource_limits (
    resource     text             COLLATE "C" NOT NULL,
    rate         double precision,           -- settings of who asked last: starts per second
    retries      double precision,           -- per second
    tat          double precision NOT NULL,  -- when all starts are paid for at the rate
    spread       double precision NOT NULL,  -- the next place for who came too early for the rate
    spread_rate  double precision,           -- by which those places were given
    slot_spread  double precision NOT NULL,  -- the next place for who found no slot
    retry_tat    double precision NOT NULL,
    retry_spread double precision NOT NULL,  -- the next place for who has failed just now
    retry_again  double precision NOT NULL,  -- the next place for a retry that came too early
    retry_rate   double precision,
    mean         double precision NOT NULL,  -- seconds that a task needs
    asked_at     double precision NOT NULL,
    burst        integer          NOT NULL,
    concurrency  integer,
    retry_burst  integer          NOT NULL,
    CONSTRAINT resource_limits_pkey PRIMARY KEY (resource)
) WITH (fillfactor = 50);

-- Taken while its task is running by this epoch. What is not is deleted by the next who asks.
CREATE TABLE {schema}resource_slots (
    task_id  bigint  NOT NULL,
    epoch    integer NOT NULL,
    resource text    COLLATE "C" NOT NULL,
    CONSTRAINT resource_slots_pkey PRIMARY KEY (task_id)
);
CREATE INDEX resource_slots_resource ON {schema}resource_slots (resource);

-- Tasks of Celery's, also those that are over: a message that comes twice is known by its key.
CREATE INDEX task_queue_celery ON {schema}task_queue (unique_key) WHERE unique_key LIKE 'celery:%';
