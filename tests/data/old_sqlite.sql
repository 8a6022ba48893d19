BEGIN TRANSACTION;
CREATE TABLE alerts (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    key          TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('first', 'changed', 'reminder', 'recovered')),
    state        TEXT,                                       -- not set for well again
    title        TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    deliveries   INTEGER NOT NULL DEFAULT 0,
    delivered_to TEXT    NOT NULL DEFAULT '[]',              -- JSON
    due_at       INTEGER NOT NULL,
    leased_until INTEGER,
    delivered_at INTEGER,                                    -- not set while it waits
    last_error   TEXT,
    created_at   INTEGER NOT NULL
) STRICT;
INSERT INTO "alerts" VALUES(1,'group:9b18c00f50c36527','first','new','new failure: charge_card: PermanentError: card refused','9 failures, 9 dead letters, category unknown; outlast dlq list --group 9b18c00f50c36527',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(2,'group:b91c65a634209bf3','first','new','new failure: send_invoice: ResourceNotFoundError: no such template','5 failures, 5 dead letters, category not_found; outlast dlq list --group b91c65a634209bf3',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(3,'group:494ca63667f3bf16','first','new','new failure: fetch_page: Expired: not started in time: its expiry had passed','1 failures, 1 dead letters, category unknown; outlast dlq list --group 494ca63667f3bf16',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(4,'group:50a62daa21efed7d','first','new','new failure: import_feed: TimeoutError: the feed did not answer','1 failures, 0 dead letters, category network; outlast dlq list --group 50a62daa21efed7d',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(5,'group:0a59c10ab5a5c692','first','new','new failure: sync_order: ConnectionResetError: connection reset by peer','1 failures, 0 dead letters, category network; outlast dlq list --group 0a59c10ab5a5c692',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(6,'group:40a1f4cc1682540c','first','new','new failure: fetch_page: PayloadError: the payload of task fetch_page has no n and an unknown pages; its parameters have changed','1 failures, 1 dead letters, category invalid_parameters; outlast dlq list --group 40a1f4cc1682540c',1,1,'[]',1794853994122,NULL,1794854007799,NULL,1794853994122);
INSERT INTO "alerts" VALUES(7,'group:9b18c00f50c36527','changed','again after 2026-11-16T18:33:16.444000+00:00','fails again: charge_card: PermanentError: card refused','10 failures, 8 dead letters, category unknown; outlast dlq list --group 9b18c00f50c36527',1,1,'[]',1794853996508,NULL,1794854007803,NULL,1794853996508);
INSERT INTO "alerts" VALUES(8,'source:2','first','disabled','feed 1: disabled after 5 failures in a row','ResourceNotFoundError: gone',1,1,'[]',1794854007959,NULL,1794854007982,NULL,1794854007959);
INSERT INTO "alerts" VALUES(9,'source:4','first','disabled','feed 3: disabled after 5 failures in a row','ResourceNotFoundError: gone',1,1,'[]',1794854007959,NULL,1794854007982,NULL,1794854007959);
INSERT INTO "alerts" VALUES(10,'source:2','recovered',NULL,'feed 1: enabled by hand','',1,1,'[]',1794854008023,1794854009026,NULL,NULL,1794854008023);
INSERT INTO "alerts" VALUES(11,'matter:0','first','bad','title 0','more about it',1,1,'["chat"]',1794854008026,NULL,1794854008027,NULL,1794854008026);
INSERT INTO "alerts" VALUES(12,'matter:1','first','bad','title 1','more about it',1,1,'["chat"]',1794854009027,NULL,NULL,'mail is down',1794854008026);
INSERT INTO "alerts" VALUES(13,'matter:2','first','bad','title 2','more about it',1,1,'[]',1794854008026,1794854009026,NULL,NULL,1794854008026);
CREATE TABLE audit_log (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    who     TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    detail  TEXT    NOT NULL,                       -- JSON
    reason  TEXT    NOT NULL
) STRICT;
INSERT INTO "audit_log" VALUES(1,1794853996420,'maria@office','discard_dead_letter','dead_letter:9','{}','paid in cash');
INSERT INTO "audit_log" VALUES(2,1794853996433,'maria@office','edit_dead_letter','dead_letter:7','{"task": 10, "operations": ["replace /n"]}','wrong card');
INSERT INTO "audit_log" VALUES(3,1794853996443,'maria@office','acknowledge_group','group:9b18c00f50c36527','{"acknowledged": true}','');
INSERT INTO "audit_log" VALUES(4,1794853996445,'maria@office','note_group','group:9b18c00f50c36527','{"note": "see the ticket"}','');
INSERT INTO "audit_log" VALUES(5,1794853996452,'maria@office','snooze_group','group:50a62daa21efed7d','{"snooze": 3600.0}','');
INSERT INTO "audit_log" VALUES(6,1794853996463,'maria@office','begin_replay','dead_letters','{"ids": [15, 6], "canary": false}','try again');
INSERT INTO "audit_log" VALUES(7,1794853996523,'maria@office','begin_replay','dead_letters','{"ids": [5, 4, 3], "canary": true}','once more');
INSERT INTO "audit_log" VALUES(8,1794854008045,'maria@office','pause_queue','queue:mail','{"tasks": 2}','the mail server moves');
INSERT INTO "audit_log" VALUES(9,1794854008147,'maria@office','begin_replay','dead_letters','{"ids": [14, 13, 11, 10, 8], "canary": true}','the template is there');
CREATE TABLE breaker_orders (
    resource   TEXT    NOT NULL PRIMARY KEY,
    number     INTEGER NOT NULL UNIQUE,
    state      TEXT    NOT NULL CHECK (state IN ('closed', 'open')),
    until      INTEGER,                             -- not set for until it is closed by hand
    ordered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "breaker_orders" VALUES('billing.test',1,'open',NULL,1794854008043);
INSERT INTO "breaker_orders" VALUES('other.test',2,'closed',NULL,1794854008043);
CREATE TABLE breakers (
    resource   TEXT    NOT NULL,
    process    TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    before     TEXT    NOT NULL DEFAULT '',         -- the state it had
    until      INTEGER,
    reason     TEXT    NOT NULL,
    is_worker  INTEGER NOT NULL,                    -- it is gone when the worker is
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (resource, process)
) STRICT, WITHOUT ROWID;
INSERT INTO "breakers" VALUES('api.test','old-process','open','',1794857608042,'5 failures',0,1794854008042);
INSERT INTO "breakers" VALUES('other.test','old-process','closed','',NULL,'',0,1794854008042);
CREATE TABLE cooldowns (
    resource TEXT PRIMARY KEY,
    until    INTEGER NOT NULL,
    reason   TEXT    NOT NULL
, capped INTEGER NOT NULL DEFAULT 0, probing INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "cooldowns" VALUES('api.test',1794854009101,'rate_limit: slow down',0,0);
INSERT INTO "cooldowns" VALUES('slow.test',4102444825535,'asked us to come back much later',0,0);
CREATE TABLE counted_tasks (up_to INTEGER NOT NULL) STRICT;
INSERT INTO "counted_tasks" VALUES(31);
CREATE TABLE cycles (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    profile      TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,                                    -- not set while it runs
    sources      INTEGER NOT NULL,
    polled       INTEGER NOT NULL DEFAULT 0,
    changed      INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    deferred     INTEGER NOT NULL DEFAULT 0,
    outage_since INTEGER
) STRICT;
INSERT INTO "cycles" VALUES(1,'feed',1794854007726,1794854007787,4,4,2,2,0,NULL);
INSERT INTO "cycles" VALUES(2,'feed',1794854007807,1794854007839,4,4,0,2,0,NULL);
INSERT INTO "cycles" VALUES(3,'feed',1794854007844,1794854007872,4,4,0,2,0,NULL);
INSERT INTO "cycles" VALUES(4,'feed',1794854007877,1794854007908,4,4,0,2,0,NULL);
INSERT INTO "cycles" VALUES(5,'feed',1794854007913,1794854007959,4,4,0,2,0,NULL);
INSERT INTO "cycles" VALUES(6,'feed',1794854007986,1794854008018,6,6,2,2,0,NULL);
INSERT INTO "cycles" VALUES(7,'blog',1794854008024,NULL,1,0,0,0,0,NULL);
CREATE TABLE dead_letter_queue (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    original_task_id INTEGER NOT NULL UNIQUE,
    task_type        TEXT    NOT NULL,
    queue            TEXT    NOT NULL,
    priority         INTEGER NOT NULL,
    parameters       TEXT    NOT NULL,
    resource         TEXT,
    unique_key       TEXT,
    error_type       TEXT    NOT NULL,
    error_message    TEXT    NOT NULL,
    error_category   TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    fingerprint      TEXT    NOT NULL,
    traceback        TEXT    NOT NULL,
    failure          TEXT    NOT NULL,
    retry_count      INTEGER NOT NULL,
    crash_count      INTEGER NOT NULL,
    replays          INTEGER NOT NULL,
    worker_id        TEXT,
    created_at       INTEGER NOT NULL,
    moved_to_dlq_at  INTEGER NOT NULL
, replay_id INTEGER) STRICT;
INSERT INTO "dead_letter_queue" VALUES(1,7,'charge_card','default',5,'{"n":0}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992574,1794853992912,NULL);
INSERT INTO "dead_letter_queue" VALUES(2,8,'charge_card','default',5,'{"n":1}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992578,1794853992932,NULL);
INSERT INTO "dead_letter_queue" VALUES(4,12,'charge_card','default',5,'{"n":5}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992580,1794853992947,NULL);
INSERT INTO "dead_letter_queue" VALUES(5,13,'charge_card','default',5,'{"n":6}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992581,1794853992947,NULL);
INSERT INTO "dead_letter_queue" VALUES(7,10,'charge_card','default',5,'{"n":77}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992579,1794853992947,NULL);
INSERT INTO "dead_letter_queue" VALUES(10,17,'send_invoice','default',5,'{"n":2}',NULL,NULL,'ResourceNotFoundError','no such template','not_found','permanent','b91c65a634209bf3','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}',1,0,0,'old-worker-8d8d392a7621',1794853992590,1794853992958,NULL);
INSERT INTO "dead_letter_queue" VALUES(11,18,'send_invoice','default',5,'{"n":3}',NULL,NULL,'ResourceNotFoundError','no such template','not_found','permanent','b91c65a634209bf3','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}',1,0,0,'old-worker-8d8d392a7621',1794853992594,1794853992958,NULL);
INSERT INTO "dead_letter_queue" VALUES(12,23,'fetch_page','default',5,'{"n":20}',NULL,NULL,'Expired','not started in time: its expiry had passed','unknown','expired','494ca63667f3bf16','','{"category": "unknown", "retryable": false, "origin": "unknown", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "Expired", "message": "not started in time: its expiry had passed", "rule": "expired", "location": "", "exact": false, "fingerprint": "494ca63667f3bf16"}',1,0,0,'old-worker-8d8d392a7621',1794853992620,1794853992971,NULL);
INSERT INTO "dead_letter_queue" VALUES(13,16,'send_invoice','default',5,'{"n":1}',NULL,NULL,'ResourceNotFoundError','no such template','not_found','permanent','b91c65a634209bf3','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}',1,0,0,'old-worker-8d8d392a7621',1794853992588,1794853992971,NULL);
INSERT INTO "dead_letter_queue" VALUES(14,19,'send_invoice','default',5,'{"n":4}',NULL,NULL,'ResourceNotFoundError','no such template','not_found','permanent','b91c65a634209bf3','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}',1,0,0,'old-worker-8d8d392a7621',1794853992597,1794853992979,NULL);
INSERT INTO "dead_letter_queue" VALUES(15,20,'charge_card','default',5,'{"n":8}',NULL,'order-8','PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,0,'old-worker-8d8d392a7621',1794853992602,1794853992979,NULL);
INSERT INTO "dead_letter_queue" VALUES(16,24,'fetch_page','default',5,'{"pages":1}',NULL,NULL,'PayloadError','the payload of task fetch_page has no n and an unknown pages; its parameters have changed','invalid_parameters','undecodable','40a1f4cc1682540c','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 66, in execute
    args, kwargs = definition.codec.decode(claimed.parameters)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/src/outlast/queue/payload.py", line 137, in decode
    raise self._misnamed(given)
outlast.errors.PayloadError: the payload of task fetch_page has no n and an unknown pages; its parameters have changed','{"category": "invalid_parameters", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PayloadError", "message": "the payload of task fetch_page has no n and an unknown pages; its parameters have changed", "rule": "PayloadError", "location": "", "exact": false, "fingerprint": "40a1f4cc1682540c"}',1,0,0,'old-worker-8d8d392a7621',1794853992626,1794853992979,NULL);
INSERT INTO "dead_letter_queue" VALUES(17,21,'import_feed','default',5,'{"n":1}',NULL,NULL,'TimeoutError','the feed did not answer','network','exhausted','50a62daa21efed7d','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 71, in import_feed
    raise TimeoutError("the feed did not answer")
TimeoutError: the feed did not answer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "TimeoutError", "message": "the feed did not answer", "rule": "builtins.TimeoutError", "location": "integration/old_databases.py:build.<locals>.import_feed", "exact": false, "fingerprint": "50a62daa21efed7d"}',3,0,0,'old-worker-f1c7e8d0587e',1794853992610,1794853995286,NULL);
INSERT INTO "dead_letter_queue" VALUES(18,14,'charge_card','default',5,'{"n":7}',NULL,NULL,'PermanentError','card refused','unknown','permanent','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,1,'old-worker-e492201a28eb',1794853992582,1794853996490,1);
INSERT INTO "dead_letter_queue" VALUES(19,9,'charge_card','default',5,'{"n":2}',NULL,NULL,'PermanentError','card refused','unknown','canary','9b18c00f50c36527','Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}',1,0,1,'old-worker-570eaac98c63',1794853992579,1794853996601,2);
INSERT INTO "dead_letter_queue" VALUES(20,42,'resize_image','default',0,'{"n":2}',NULL,NULL,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','crash','ab81ec98d87f273d','','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}',0,3,0,'dying',1794854008181,1794854008206,NULL);
CREATE TABLE failure_flow (
    fingerprint TEXT    NOT NULL,
    span        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    event       TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, span, at, event)
) STRICT, WITHOUT ROWID;
INSERT INTO "failure_flow" VALUES('0a59c10ab5a5c692',10,1794853990000,'retried',1);
INSERT INTO "failure_flow" VALUES('40a1f4cc1682540c',10,1794853990000,'failed',1);
INSERT INTO "failure_flow" VALUES('494ca63667f3bf16',10,1794853990000,'failed',1);
INSERT INTO "failure_flow" VALUES('50a62daa21efed7d',10,1794853990000,'failed',1);
INSERT INTO "failure_flow" VALUES('50a62daa21efed7d',10,1794853990000,'retried',2);
INSERT INTO "failure_flow" VALUES('9b18c00f50c36527',10,1794853990000,'failed',11);
INSERT INTO "failure_flow" VALUES('b91c65a634209bf3',10,1794853990000,'failed',5);
CREATE TABLE failure_groups (
    fingerprint    TEXT    NOT NULL PRIMARY KEY,
    task_type      TEXT    NOT NULL,
    error_type     TEXT    NOT NULL,
    error_category TEXT    NOT NULL,
    error_message  TEXT    NOT NULL,
    first_seen     INTEGER NOT NULL,
    last_seen      INTEGER NOT NULL,
    failures       INTEGER NOT NULL DEFAULT 0,
    dead           INTEGER NOT NULL DEFAULT 0
, note TEXT NOT NULL DEFAULT '', acknowledged_at INTEGER, acknowledged_by TEXT NOT NULL DEFAULT '', snoozed_until INTEGER, told INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "failure_groups" VALUES('9b18c00f50c36527','charge_card','PermanentError','unknown','card refused',1794853992912,1794853996601,11,8,'see the ticket',1794853996444,'maria@office',NULL,1);
INSERT INTO "failure_groups" VALUES('b91c65a634209bf3','send_invoice','ResourceNotFoundError','not_found','no such template',1794853992958,1794853992979,5,5,'',NULL,'',NULL,1);
INSERT INTO "failure_groups" VALUES('494ca63667f3bf16','fetch_page','Expired','unknown','not started in time: its expiry had passed',1794853992971,1794853992971,1,1,'',NULL,'',NULL,1);
INSERT INTO "failure_groups" VALUES('50a62daa21efed7d','import_feed','TimeoutError','network','the feed did not answer',1794853992979,1794853995286,3,1,'',NULL,'',1794857596453,1);
INSERT INTO "failure_groups" VALUES('0a59c10ab5a5c692','sync_order','ConnectionResetError','network','connection reset by peer',1794853992979,1794853992979,1,0,'',NULL,'',NULL,1);
INSERT INTO "failure_groups" VALUES('40a1f4cc1682540c','fetch_page','PayloadError','invalid_parameters','the payload of task fetch_page has no n and an unknown pages; its parameters have changed',1794853992979,1794853992979,1,1,'',NULL,'',NULL,1);
INSERT INTO "failure_groups" VALUES('eb25fec9f86b2b8c','call_api','RateLimitError','rate_limit','slow down',1794854008103,1794854008103,0,0,'',NULL,'',NULL,0);
INSERT INTO "failure_groups" VALUES('ab81ec98d87f273d','resize_image','WorkerLost','unknown','worker lost: its process died, or its lease ran out, while the task was running',1794854008165,1794854008165,0,0,'',NULL,'',NULL,0);
CREATE TABLE job_runs (
    id         TEXT    NOT NULL PRIMARY KEY,
    job        TEXT    NOT NULL,
    entity     TEXT,
    env        TEXT    NOT NULL,
    parent     TEXT,
    state      TEXT    NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'aborted', 'stopped')),
    total      INTEGER NOT NULL DEFAULT 0,
    exit_code  INTEGER,
    summary    TEXT,                               -- JSON
    started_at INTEGER NOT NULL,
    ended_at   INTEGER                             -- not set while it runs
) STRICT, WITHOUT ROWID;
INSERT INTO "job_runs" VALUES('20260101T000000-0dead0','exports','item','production',NULL,'running',0,NULL,NULL,1794854008041,NULL);
INSERT INTO "job_runs" VALUES('20261116T183328-f8273b','items','item','production',NULL,'done',8,0,'{"job_id":"items","run_id":"20261116T183328-f8273b","entity":"item","env":"production","state":"done","total_targets":8,"success_targets":6,"failed_targets":2,"deferred_targets":0,"skipped_targets":0,"not_attempted":0,"diff_new_hash":0,"s3_put_success":0,"s3_put_fail":0,"db_upsert_success":0,"db_upsert_fail":0,"failure_rate":0.25,"exit_code":0,"duration":0.011410092000005534,"attempts":8,"total_is_known":true,"reasons":[],"by_category":{"not_found":2},"by_origin":{"program":2},"figures":{},"groups":[{"fingerprint":"9bc59a072f20d6cb","size":2,"category":"not_found","origin":"program","error":"ResourceNotFoundError: no such item","source_id":"3"}],"compared":null}',1794854008029,1794854008040);
CREATE TABLE job_targets (
    run_id        TEXT    NOT NULL,
    source_id     TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('success', 'failed', 'deferred', 'skipped')),
    attempts      INTEGER NOT NULL,
    target        TEXT,                            -- JSON
    error_type    TEXT,
    error_message TEXT,
    category      TEXT,
    origin        TEXT,
    http_status   INTEGER,
    fingerprint   TEXT,
    retry_at      INTEGER,
    finished_at   INTEGER NOT NULL,
    PRIMARY KEY (run_id, source_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','0','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','1','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','2','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','3','failed',1,'3','ResourceNotFoundError','no such item','not_found','program',NULL,'9bc59a072f20d6cb',NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','4','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','5','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','6','success',1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1794854008039);
INSERT INTO "job_targets" VALUES('20261116T183328-f8273b','7','failed',1,'7','ResourceNotFoundError','no such item','not_found','program',NULL,'9bc59a072f20d6cb',NULL,1794854008039);
CREATE TABLE payload_edits (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL,
    before  TEXT    NOT NULL,
    after   TEXT    NOT NULL,
    patch   TEXT    NOT NULL,
    who     TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
INSERT INTO "payload_edits" VALUES(1,10,'{"n":3}','{"n":77}','[{"op":"replace","path":"/n","value":77}]','maria@office','wrong card',1794853996436);
CREATE TABLE periodic (
    name        TEXT PRIMARY KEY,
    next_run_at INTEGER NOT NULL,
    last_run_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "periodic" VALUES('audit_accounts',4008421992757,NULL);
CREATE TABLE queues (
    name   TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO "queues" VALUES('mail',1);
CREATE TABLE replays (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    which        TEXT    NOT NULL,                  -- JSON
    canary       INTEGER NOT NULL,
    rate         REAL,                              -- tasks per second
    state        TEXT    NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'cancelled')),
    stage        INTEGER NOT NULL DEFAULT 0,
    total        INTEGER NOT NULL,
    newest       INTEGER NOT NULL,
    cursor       INTEGER NOT NULL,
    replayed     INTEGER NOT NULL DEFAULT 0,
    conflicts    INTEGER NOT NULL DEFAULT 0,
    conflict_ids TEXT    NOT NULL DEFAULT '[]',     -- JSON
    stopped_by   TEXT    NOT NULL DEFAULT '',
    who          TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    bound        INTEGER NOT NULL,                  -- newest at its begin; behind it are its own failures alone
    forgiven     INTEGER NOT NULL DEFAULT 0,        -- dead letters up to this number stop it no more
    lease_owner  TEXT,
    leased_until INTEGER
) STRICT;
INSERT INTO "replays" VALUES(1,'{"ids": [15, 6]}',0,NULL,'done',2,2,15,15,1,1,'[15]','','maria@office','try again',1,1794853996467,1794853996471,1794853996471,15,0,NULL,NULL);
INSERT INTO "replays" VALUES(2,'{"ids": [5, 4, 3]}',1,NULL,'stopped',0,3,5,3,1,0,'[]','task 9 failed again: card refused','maria@office','once more',1,1794853996537,1794853996660,1794853996660,5,0,NULL,NULL);
INSERT INTO "replays" VALUES(3,'{"ids": [14, 13, 11, 10, 8]}',1,NULL,'running',0,5,14,8,1,0,'[]','','maria@office','the template is there',1,1794854008151,1794854008152,NULL,14,0,'old-worker-replays',1794854023153);
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
INSERT INTO "resource_limits" VALUES('limited.test',0.3,2,3,0.7,1,1.79485401471057462691e+09,1.79485401837724137304e+09,0.3,0.0,0.0,1.7948540125445251465e+09,0.0,0.7,0.1,1.79485400804452514648e+09);
CREATE TABLE resource_slots (
    task_id  INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    resource TEXT    NOT NULL
) STRICT;
INSERT INTO "resource_slots" VALUES(1000,1,'limited.test');
INSERT INTO "resource_slots" VALUES(1001,1,'limited.test');
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT;
INSERT INTO "schema_version" VALUES(1,1794853992537);
INSERT INTO "schema_version" VALUES(2,1794853992540);
INSERT INTO "schema_version" VALUES(3,1794853992541);
INSERT INTO "schema_version" VALUES(4,1794853992548);
INSERT INTO "schema_version" VALUES(5,1794853992555);
INSERT INTO "schema_version" VALUES(6,1794853992556);
CREATE TABLE source_polls (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id   INTEGER NOT NULL,
    cycle       INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    http_status INTEGER,
    category    TEXT,
    error       TEXT,
    before      TEXT,
    after       TEXT
) STRICT;
INSERT INTO "source_polls" VALUES(1,1,1,1794854007779,'changed',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(2,2,1,1794854007779,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(3,3,1,1794854007779,'changed',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(4,4,1,1794854007779,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(5,2,1,1794854007787,'warning',0,NULL,NULL,NULL,'healthy','warning');
INSERT INTO "source_polls" VALUES(6,4,1,1794854007787,'warning',0,NULL,NULL,NULL,'healthy','warning');
INSERT INTO "source_polls" VALUES(7,1,2,1794854007837,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(8,2,2,1794854007837,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(9,3,2,1794854007837,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(10,4,2,1794854007837,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(11,1,3,1794854007870,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(12,2,3,1794854007870,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(13,3,3,1794854007870,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(14,4,3,1794854007870,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(15,1,4,1794854007905,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(16,2,4,1794854007905,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(17,3,4,1794854007905,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(18,4,4,1794854007905,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(19,1,5,1794854007948,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(20,2,5,1794854007948,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(21,3,5,1794854007948,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(22,4,5,1794854007948,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(23,2,5,1794854007959,'disabled',0,NULL,NULL,NULL,'warning','disabled');
INSERT INTO "source_polls" VALUES(24,4,5,1794854007959,'disabled',0,NULL,NULL,NULL,'warning','disabled');
INSERT INTO "source_polls" VALUES(25,1,6,1794854008012,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(26,3,6,1794854008012,'unchanged',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(27,5,6,1794854008012,'changed',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(28,6,6,1794854008012,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(29,7,6,1794854008012,'changed',1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "source_polls" VALUES(30,8,6,1794854008012,'failed',1,NULL,'not_found','ResourceNotFoundError: gone',NULL,NULL);
INSERT INTO "source_polls" VALUES(31,6,6,1794854008018,'warning',0,NULL,NULL,NULL,'healthy','warning');
INSERT INTO "source_polls" VALUES(32,8,6,1794854008018,'warning',0,NULL,NULL,NULL,'healthy','warning');
INSERT INTO "source_polls" VALUES(33,2,5,1794854008023,'enabled',0,NULL,NULL,NULL,'disabled','healthy');
CREATE TABLE sources (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: alerts are kept under it
    url                  TEXT    NOT NULL,
    profile              TEXT    NOT NULL,
    name                 TEXT    NOT NULL DEFAULT '',
    selector             TEXT,
    state                TEXT    NOT NULL DEFAULT 'healthy'
                         CHECK (state IN ('healthy', 'warning', 'error', 'disabled', 'probation')),
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    failing_since        INTEGER,
    disabled_at          INTEGER,
    disabled_by          TEXT,
    probes               INTEGER NOT NULL DEFAULT 0,
    passed               INTEGER NOT NULL DEFAULT 0,
    last_success_at      INTEGER,
    last_failure_at      INTEGER,
    last_error           TEXT,
    last_failure         TEXT,                               -- JSON
    next_poll_at         INTEGER NOT NULL,
    not_before           INTEGER,
    etag                 TEXT,
    last_modified        TEXT,
    content_hash         TEXT,
    memory               TEXT,
    cycle                INTEGER NOT NULL DEFAULT 0,
    outcome              TEXT,
    pending              TEXT,                               -- JSON
    epoch                INTEGER NOT NULL DEFAULT 0,
    lease_owner          TEXT,
    leased_until         INTEGER,
    created_at           INTEGER NOT NULL,
    UNIQUE (profile, url)
) STRICT;
INSERT INTO "sources" VALUES(1,'https://feeds.test/0','feed','feed 0',NULL,'healthy',0,NULL,NULL,NULL,0,0,1794854008012,NULL,NULL,NULL,1794854700000,NULL,NULL,NULL,'923fe53966c6cd9343e11af776cd4b05be315ea4b200b02e4d5dfb0f929b73bf',NULL,6,'unchanged',NULL,6,NULL,NULL,1794854007699);
INSERT INTO "sources" VALUES(2,'https://feeds.test/1','feed','feed 1',NULL,'healthy',0,NULL,NULL,NULL,0,0,NULL,1794854007959,'ResourceNotFoundError: gone','{"category":"not_found","retryable":false,"origin":"program","http_status":null,"code":null,"retry_after":null,"capped":false,"exception_name":"ResourceNotFoundError","message":"gone","rule":"ResourceNotFoundError","location":"integration/old_databases.py:fetch","exact":false,"fingerprint":"eb5b011c1090519b"}',1794854008023,NULL,NULL,NULL,NULL,NULL,5,'failed',NULL,5,NULL,NULL,1794854007699);
INSERT INTO "sources" VALUES(3,'https://feeds.test/2','feed','feed 2',NULL,'healthy',0,NULL,NULL,NULL,0,0,1794854008012,NULL,NULL,NULL,1794854700000,NULL,NULL,NULL,'923fe53966c6cd9343e11af776cd4b05be315ea4b200b02e4d5dfb0f929b73bf',NULL,6,'unchanged',NULL,6,NULL,NULL,1794854007699);
INSERT INTO "sources" VALUES(4,'https://feeds.test/3','feed','feed 3',NULL,'disabled',5,1794854007787,1794854007959,'rule',0,0,NULL,1794854007959,'ResourceNotFoundError: gone','{"category":"not_found","retryable":false,"origin":"program","http_status":null,"code":null,"retry_after":null,"capped":false,"exception_name":"ResourceNotFoundError","message":"gone","rule":"ResourceNotFoundError","location":"integration/old_databases.py:fetch","exact":false,"fingerprint":"eb5b011c1090519b"}',1794854700000,1794940407959,NULL,NULL,NULL,NULL,5,'failed',NULL,5,NULL,NULL,1794854007699);
INSERT INTO "sources" VALUES(5,'https://feeds.test/4','feed','feed 4',NULL,'healthy',0,NULL,NULL,NULL,0,0,1794854008012,NULL,NULL,NULL,1794854700000,NULL,NULL,NULL,'923fe53966c6cd9343e11af776cd4b05be315ea4b200b02e4d5dfb0f929b73bf',NULL,6,'changed',NULL,1,NULL,NULL,1794854007984);
INSERT INTO "sources" VALUES(6,'https://feeds.test/5','feed','feed 5',NULL,'warning',1,1794854008018,NULL,NULL,0,0,NULL,1794854008018,'ResourceNotFoundError: gone','{"category":"not_found","retryable":false,"origin":"program","http_status":null,"code":null,"retry_after":null,"capped":false,"exception_name":"ResourceNotFoundError","message":"gone","rule":"ResourceNotFoundError","location":"integration/old_databases.py:fetch","exact":false,"fingerprint":"eb5b011c1090519b"}',1794854700000,NULL,NULL,NULL,NULL,NULL,6,'failed',NULL,1,NULL,NULL,1794854007984);
INSERT INTO "sources" VALUES(7,'https://feeds.test/6','feed','feed 6',NULL,'healthy',0,NULL,NULL,NULL,0,0,1794854008012,NULL,NULL,NULL,1794854700000,NULL,NULL,NULL,'923fe53966c6cd9343e11af776cd4b05be315ea4b200b02e4d5dfb0f929b73bf',NULL,6,'changed',NULL,1,NULL,NULL,1794854007984);
INSERT INTO "sources" VALUES(8,'https://feeds.test/7','feed','feed 7',NULL,'warning',1,1794854008018,NULL,NULL,0,0,NULL,1794854008018,'ResourceNotFoundError: gone','{"category":"not_found","retryable":false,"origin":"program","http_status":null,"code":null,"retry_after":null,"capped":false,"exception_name":"ResourceNotFoundError","message":"gone","rule":"ResourceNotFoundError","location":"integration/old_databases.py:fetch","exact":false,"fingerprint":"eb5b011c1090519b"}',1794854700000,NULL,NULL,NULL,NULL,NULL,6,'failed',NULL,1,NULL,NULL,1794854007984);
INSERT INTO "sources" VALUES(9,'https://blogs.test/8','blog','','h1','healthy',0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,1794854008024,NULL,NULL,NULL,NULL,NULL,7,NULL,NULL,1,'old-monitor',1794854009025,1794854008024);
CREATE TABLE task_attempts (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id        INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    outcome        TEXT    NOT NULL,
    worker_id      TEXT,
    started_at     INTEGER,
    finished_at    INTEGER NOT NULL,
    error_type     TEXT    NOT NULL,
    error_message  TEXT    NOT NULL,
    error_category TEXT    NOT NULL,
    fingerprint    TEXT    NOT NULL,
    delay          REAL,
    traceback      TEXT    NOT NULL,
    failure        TEXT    NOT NULL
) STRICT;
INSERT INTO "task_attempts" VALUES(1,7,1,'fail','old-worker-8d8d392a7621',1794853992900,1794853992912,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(2,8,1,'fail','old-worker-8d8d392a7621',1794853992903,1794853992932,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(3,9,1,'fail','old-worker-8d8d392a7621',1794853992912,1794853992934,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(4,12,1,'fail','old-worker-8d8d392a7621',1794853992932,1794853992947,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(5,13,1,'fail','old-worker-8d8d392a7621',1794853992932,1794853992947,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(6,14,1,'fail','old-worker-8d8d392a7621',1794853992932,1794853992947,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(7,10,1,'fail','old-worker-8d8d392a7621',1794853992932,1794853992947,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(8,15,1,'fail','old-worker-8d8d392a7621',1794853992947,1794853992958,'ResourceNotFoundError','no such template','not_found','b91c65a634209bf3',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}');
INSERT INTO "task_attempts" VALUES(9,11,1,'fail','old-worker-8d8d392a7621',1794853992947,1794853992958,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(10,17,1,'fail','old-worker-8d8d392a7621',1794853992947,1794853992958,'ResourceNotFoundError','no such template','not_found','b91c65a634209bf3',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}');
INSERT INTO "task_attempts" VALUES(11,18,1,'fail','old-worker-8d8d392a7621',1794853992947,1794853992958,'ResourceNotFoundError','no such template','not_found','b91c65a634209bf3',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}');
INSERT INTO "task_attempts" VALUES(12,23,1,'fail','old-worker-8d8d392a7621',1794853992958,1794853992971,'Expired','not started in time: its expiry had passed','unknown','494ca63667f3bf16',NULL,'','{"category": "unknown", "retryable": false, "origin": "unknown", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "Expired", "message": "not started in time: its expiry had passed", "rule": "expired", "location": "", "exact": false, "fingerprint": "494ca63667f3bf16"}');
INSERT INTO "task_attempts" VALUES(13,16,1,'fail','old-worker-8d8d392a7621',1794853992947,1794853992971,'ResourceNotFoundError','no such template','not_found','b91c65a634209bf3',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}');
INSERT INTO "task_attempts" VALUES(14,19,1,'fail','old-worker-8d8d392a7621',1794853992958,1794853992979,'ResourceNotFoundError','no such template','not_found','b91c65a634209bf3',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 80, in send_invoice
    raise ResourceNotFoundError("no such template")
outlast.errors.ResourceNotFoundError: no such template','{"category": "not_found", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ResourceNotFoundError", "message": "no such template", "rule": "ResourceNotFoundError", "location": "integration/old_databases.py:build.<locals>.send_invoice", "exact": false, "fingerprint": "b91c65a634209bf3"}');
INSERT INTO "task_attempts" VALUES(15,20,1,'fail','old-worker-8d8d392a7621',1794853992958,1794853992979,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(16,21,1,'retry','old-worker-8d8d392a7621',1794853992958,1794853992979,'TimeoutError','the feed did not answer','network','50a62daa21efed7d',1.0,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 71, in import_feed
    raise TimeoutError("the feed did not answer")
TimeoutError: the feed did not answer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "TimeoutError", "message": "the feed did not answer", "rule": "builtins.TimeoutError", "location": "integration/old_databases.py:build.<locals>.import_feed", "exact": false, "fingerprint": "50a62daa21efed7d"}');
INSERT INTO "task_attempts" VALUES(17,22,1,'retry','old-worker-8d8d392a7621',1794853992958,1794853992979,'ConnectionResetError','connection reset by peer','network','0a59c10ab5a5c692',1.0,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 67, in sync_order
    raise ConnectionResetError("connection reset by peer")
ConnectionResetError: connection reset by peer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ConnectionResetError", "message": "connection reset by peer", "rule": "builtins.ConnectionError", "location": "integration/old_databases.py:build.<locals>.sync_order", "exact": false, "fingerprint": "0a59c10ab5a5c692"}');
INSERT INTO "task_attempts" VALUES(18,24,1,'fail','old-worker-8d8d392a7621',1794853992958,1794853992979,'PayloadError','the payload of task fetch_page has no n and an unknown pages; its parameters have changed','invalid_parameters','40a1f4cc1682540c',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 66, in execute
    args, kwargs = definition.codec.decode(claimed.parameters)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/src/outlast/queue/payload.py", line 137, in decode
    raise self._misnamed(given)
outlast.errors.PayloadError: the payload of task fetch_page has no n and an unknown pages; its parameters have changed','{"category": "invalid_parameters", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PayloadError", "message": "the payload of task fetch_page has no n and an unknown pages; its parameters have changed", "rule": "PayloadError", "location": "", "exact": false, "fingerprint": "40a1f4cc1682540c"}');
INSERT INTO "task_attempts" VALUES(19,21,2,'retry','old-worker-4c88966fb695',1794853994101,1794853994129,'TimeoutError','the feed did not answer','network','50a62daa21efed7d',1.0,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 71, in import_feed
    raise TimeoutError("the feed did not answer")
TimeoutError: the feed did not answer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "TimeoutError", "message": "the feed did not answer", "rule": "builtins.TimeoutError", "location": "integration/old_databases.py:build.<locals>.import_feed", "exact": false, "fingerprint": "50a62daa21efed7d"}');
INSERT INTO "task_attempts" VALUES(20,21,3,'fail','old-worker-f1c7e8d0587e',1794853995256,1794853995286,'TimeoutError','the feed did not answer','network','50a62daa21efed7d',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 71, in import_feed
    raise TimeoutError("the feed did not answer")
TimeoutError: the feed did not answer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "TimeoutError", "message": "the feed did not answer", "rule": "builtins.TimeoutError", "location": "integration/old_databases.py:build.<locals>.import_feed", "exact": false, "fingerprint": "50a62daa21efed7d"}');
INSERT INTO "task_attempts" VALUES(21,14,2,'fail','old-worker-e492201a28eb',1794853996486,1794853996490,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(22,9,2,'fail','old-worker-570eaac98c63',1794853996585,1794853996601,'PermanentError','card refused','unknown','9b18c00f50c36527',NULL,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 75, in charge_card
    raise PermanentError("card refused")
outlast.errors.PermanentError: card refused','{"category": "unknown", "retryable": false, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "PermanentError", "message": "card refused", "rule": "PermanentError", "location": "integration/old_databases.py:build.<locals>.charge_card", "exact": false, "fingerprint": "9b18c00f50c36527"}');
INSERT INTO "task_attempts" VALUES(23,27,1,'retry','old-worker-72710bee7177',1794854008063,1794854008087,'ConnectionResetError','connection reset by peer','network','0a59c10ab5a5c692',1.0,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 67, in sync_order
    raise ConnectionResetError("connection reset by peer")
ConnectionResetError: connection reset by peer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "ConnectionResetError", "message": "connection reset by peer", "rule": "builtins.ConnectionError", "location": "integration/old_databases.py:build.<locals>.sync_order", "exact": false, "fingerprint": "0a59c10ab5a5c692"}');
INSERT INTO "task_attempts" VALUES(24,28,1,'retry','old-worker-72710bee7177',1794854008063,1794854008096,'TimeoutError','the feed did not answer','network','50a62daa21efed7d',1.0,'Traceback (most recent call last):
  File "/srv/shop/src/outlast/queue/executing.py", line 72, in execute
    value = definition.function(*args, **kwargs)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/tests/integration/old_databases.py", line 71, in import_feed
    raise TimeoutError("the feed did not answer")
TimeoutError: the feed did not answer','{"category": "network", "retryable": true, "origin": "program", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "TimeoutError", "message": "the feed did not answer", "rule": "builtins.TimeoutError", "location": "integration/old_databases.py:build.<locals>.import_feed", "exact": false, "fingerprint": "50a62daa21efed7d"}');
INSERT INTO "task_attempts" VALUES(25,41,1,'lost','dying',1794854008159,1794854008165,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(26,41,2,'lost','dying',1794854008171,1794854008175,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(27,42,1,'lost','dying',1794854008184,1794854008190,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(28,42,2,'lost','dying',1794854008192,1794854008194,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(29,42,3,'lost','dying',1794854008198,1794854008202,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(30,42,4,'lost','dying',1794854008204,1794854008206,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(31,43,1,'lost','dying',1794854008213,1794854008219,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(32,43,2,'lost','dying',1794854008221,1794854008222,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
INSERT INTO "task_attempts" VALUES(33,43,3,'lost','dying',1794854008223,1794854008227,'WorkerLost','worker lost: its process died, or its lease ran out, while the task was running','unknown','ab81ec98d87f273d',NULL,'','{"category": "unknown", "retryable": true, "origin": "process", "http_status": null, "code": null, "retry_after": null, "capped": false, "exception_name": "WorkerLost", "message": "worker lost: its process died, or its lease ran out, while the task was running", "rule": "worker lost", "location": "", "exact": false, "fingerprint": "ab81ec98d87f273d"}');
CREATE TABLE task_flow (
    span        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    event       TEXT    NOT NULL,
    task_type   TEXT    NOT NULL DEFAULT '',
    category    TEXT    NOT NULL DEFAULT '',
    fingerprint TEXT    NOT NULL DEFAULT '',
    n           INTEGER NOT NULL,
    seen        INTEGER NOT NULL,                   -- when it happened last
    PRIMARY KEY (span, at, event, task_type, category, fingerprint)
) STRICT, WITHOUT ROWID;
INSERT INTO "task_flow" VALUES(-1,0,'cancelled','','','',1,1794853996418);
INSERT INTO "task_flow" VALUES(-1,0,'discarded','charge_card','unknown','',1,1794853996428);
INSERT INTO "task_flow" VALUES(-1,0,'done','','','',7,1794853994129);
INSERT INTO "task_flow" VALUES(-1,0,'enqueued','','','',26,1794853996459);
INSERT INTO "task_flow" VALUES(-1,0,'failed','charge_card','unknown','',11,1794853996601);
INSERT INTO "task_flow" VALUES(-1,0,'failed','fetch_page','invalid_parameters','',1,1794853992979);
INSERT INTO "task_flow" VALUES(-1,0,'failed','fetch_page','unknown','',1,1794853992971);
INSERT INTO "task_flow" VALUES(-1,0,'failed','import_feed','network','',1,1794853995286);
INSERT INTO "task_flow" VALUES(-1,0,'failed','send_invoice','not_found','',5,1794853992979);
INSERT INTO "task_flow" VALUES(-1,0,'replayed','charge_card','unknown','',2,1794853996545);
INSERT INTO "task_flow" VALUES(-1,0,'retried','import_feed','network','',2,1794853994129);
INSERT INTO "task_flow" VALUES(-1,0,'retried','sync_order','network','',1,1794853992979);
INSERT INTO "task_flow" VALUES(0,1794854000000,'deferred','call_api','rate_limit','eb25fec9f86b2b8c',1,1794854008103);
INSERT INTO "task_flow" VALUES(0,1794854000000,'enqueued','','','',5,1794854008047);
INSERT INTO "task_flow" VALUES(0,1794854000000,'failed','resize_image','unknown','ab81ec98d87f273d',1,1794854008206);
INSERT INTO "task_flow" VALUES(0,1794854000000,'lost','resize_image','unknown','ab81ec98d87f273d',8,1794854008227);
INSERT INTO "task_flow" VALUES(0,1794854000000,'replayed','send_invoice','not_found','b91c65a634209bf3',1,1794854008152);
INSERT INTO "task_flow" VALUES(0,1794854000000,'retried','import_feed','network','50a62daa21efed7d',1,1794854008096);
INSERT INTO "task_flow" VALUES(0,1794854000000,'retried','sync_order','network','0a59c10ab5a5c692',1,1794854008087);
INSERT INTO "task_flow" VALUES(10,1794853990000,'cancelled','','','',1,1794853996418);
INSERT INTO "task_flow" VALUES(10,1794853990000,'discarded','','unknown','',1,1794853996428);
INSERT INTO "task_flow" VALUES(10,1794853990000,'done','','','',7,1794853994129);
INSERT INTO "task_flow" VALUES(10,1794853990000,'enqueued','','','',26,1794853996459);
INSERT INTO "task_flow" VALUES(10,1794853990000,'failed','','invalid_parameters','',1,1794853992979);
INSERT INTO "task_flow" VALUES(10,1794853990000,'failed','','network','',1,1794853995286);
INSERT INTO "task_flow" VALUES(10,1794853990000,'failed','','not_found','',5,1794853992979);
INSERT INTO "task_flow" VALUES(10,1794853990000,'failed','','unknown','',12,1794853996601);
INSERT INTO "task_flow" VALUES(10,1794853990000,'replayed','','unknown','',2,1794853996545);
INSERT INTO "task_flow" VALUES(10,1794853990000,'retried','','network','',3,1794853994129);
CREATE TABLE task_queue (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    task_type      TEXT    NOT NULL,
    queue          TEXT    NOT NULL DEFAULT 'default',
    priority       INTEGER NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    parameters     TEXT    NOT NULL DEFAULT '{}',
    status         TEXT    NOT NULL DEFAULT 'QUEUED'
                   -- one by one, the frequent ones first: IN makes a table of its own for every row that is written
                   CHECK (status = 'QUEUED' OR status = 'RUNNING' OR status = 'DONE' OR status = 'PARKED'
                       OR status = 'FAILED' OR status = 'CANCELLED' OR status = 'DISCARDED'),
    resource       TEXT,
    unique_key     TEXT,
    attempt        INTEGER NOT NULL DEFAULT 0,  -- starts
    retry_count    INTEGER NOT NULL DEFAULT 0,  -- failed attempts
    crash_count    INTEGER NOT NULL DEFAULT 0,  -- workers that died while it ran alone
    suspect        INTEGER NOT NULL DEFAULT 0,  -- it was running when a worker died
    alone          INTEGER NOT NULL DEFAULT 0,  -- it runs alone now
    lease_epoch    INTEGER NOT NULL DEFAULT 0,
    worker_id      TEXT,
    deferrals      INTEGER NOT NULL DEFAULT 0,
    replays        INTEGER NOT NULL DEFAULT 0,
    last_error     TEXT,
    next_run_after INTEGER NOT NULL DEFAULT 0,
    deferred_at    INTEGER,                     -- first put off without an attempt spent
    expires_at     INTEGER,
    started_at     INTEGER,
    failed_at      INTEGER,
    finished_at    INTEGER,
    created_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
, replay_id INTEGER, canary INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "task_queue" VALUES(1,'fetch_page','default',5,'{"n":0}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992560,NULL,NULL,1794853992767,NULL,1794853992807,1794853992560,1794853992807,NULL,0);
INSERT INTO "task_queue" VALUES(2,'fetch_page','default',5,'{"n":1}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992564,NULL,NULL,1794853992767,NULL,1794853992859,1794853992564,1794853992859,NULL,0);
INSERT INTO "task_queue" VALUES(3,'fetch_page','default',5,'{"n":2}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992564,NULL,NULL,1794853992807,NULL,1794853992897,1794853992564,1794853992897,NULL,0);
INSERT INTO "task_queue" VALUES(4,'fetch_page','default',5,'{"n":3}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992570,NULL,NULL,1794853992859,NULL,1794853992899,1794853992570,1794853992899,NULL,0);
INSERT INTO "task_queue" VALUES(5,'fetch_page','default',5,'{"n":4}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992571,NULL,NULL,1794853992897,NULL,1794853992900,1794853992571,1794853992900,NULL,0);
INSERT INTO "task_queue" VALUES(6,'fetch_page','default',5,'{"n":5}','DONE',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,0,NULL,1794853992571,NULL,NULL,1794853992899,NULL,1794853992903,1794853992571,1794853992903,NULL,0);
INSERT INTO "task_queue" VALUES(7,'charge_card','default',5,'{"n":0}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992574,NULL,NULL,1794853992900,1794853992912,NULL,1794853992574,1794853992912,NULL,0);
INSERT INTO "task_queue" VALUES(8,'charge_card','default',5,'{"n":1}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992578,NULL,NULL,1794853992903,1794853992932,NULL,1794853992578,1794853992932,NULL,0);
INSERT INTO "task_queue" VALUES(9,'charge_card','default',5,'{"n":2}','FAILED',NULL,NULL,2,1,0,0,0,2,'old-worker-570eaac98c63',0,1,'card refused',1794853996545,NULL,NULL,1794853996585,1794853996601,NULL,1794853992579,1794853996601,2,1);
INSERT INTO "task_queue" VALUES(10,'charge_card','default',5,'{"n":77}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992579,NULL,NULL,1794853992932,1794853992947,NULL,1794853992579,1794853996436,NULL,0);
INSERT INTO "task_queue" VALUES(11,'charge_card','default',5,'{"n":4}','DISCARDED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992580,NULL,NULL,1794853992947,1794853992958,1794853996428,1794853992580,1794853996428,NULL,0);
INSERT INTO "task_queue" VALUES(12,'charge_card','default',5,'{"n":5}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992580,NULL,NULL,1794853992932,1794853992947,NULL,1794853992580,1794853992947,NULL,0);
INSERT INTO "task_queue" VALUES(13,'charge_card','default',5,'{"n":6}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992581,NULL,NULL,1794853992932,1794853992947,NULL,1794853992581,1794853992947,NULL,0);
INSERT INTO "task_queue" VALUES(14,'charge_card','default',5,'{"n":7}','FAILED',NULL,NULL,2,1,0,0,0,2,'old-worker-e492201a28eb',0,1,'card refused',1794853996470,NULL,NULL,1794853996486,1794853996490,NULL,1794853992582,1794853996490,1,0);
INSERT INTO "task_queue" VALUES(15,'send_invoice','default',5,'{"n":0}','QUEUED',NULL,NULL,1,0,0,0,0,1,'old-worker-8d8d392a7621',0,1,'no such template',1794854008152,NULL,NULL,1794853992947,NULL,NULL,1794853992586,1794854008152,3,1);
INSERT INTO "task_queue" VALUES(16,'send_invoice','default',5,'{"n":1}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'no such template',1794853992588,NULL,NULL,1794853992947,1794853992971,NULL,1794853992588,1794853992971,NULL,0);
INSERT INTO "task_queue" VALUES(17,'send_invoice','default',5,'{"n":2}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'no such template',1794853992590,NULL,NULL,1794853992947,1794853992958,NULL,1794853992590,1794853992958,NULL,0);
INSERT INTO "task_queue" VALUES(18,'send_invoice','default',5,'{"n":3}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'no such template',1794853992594,NULL,NULL,1794853992947,1794853992958,NULL,1794853992594,1794853992958,NULL,0);
INSERT INTO "task_queue" VALUES(19,'send_invoice','default',5,'{"n":4}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'no such template',1794853992597,NULL,NULL,1794853992958,1794853992979,NULL,1794853992597,1794853992979,NULL,0);
INSERT INTO "task_queue" VALUES(20,'charge_card','default',5,'{"n":8}','FAILED',NULL,'order-8',1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'card refused',1794853992602,NULL,NULL,1794853992958,1794853992979,NULL,1794853992602,1794853992979,NULL,0);
INSERT INTO "task_queue" VALUES(21,'import_feed','default',5,'{"n":1}','FAILED',NULL,NULL,3,3,0,0,0,3,'old-worker-f1c7e8d0587e',0,0,'the feed did not answer',1794853995129,NULL,NULL,1794853995256,1794853995286,NULL,1794853992610,1794853995286,NULL,0);
INSERT INTO "task_queue" VALUES(22,'sync_order','default',5,'{"n":1}','DONE',NULL,NULL,2,1,0,0,0,2,'old-worker-4c88966fb695',0,0,'connection reset by peer',1794853993979,NULL,NULL,1794853994101,NULL,1794853994129,1794853992617,1794853994129,NULL,0);
INSERT INTO "task_queue" VALUES(23,'fetch_page','default',5,'{"n":20}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'not started in time: its expiry had passed',1794853992620,NULL,1794853992630,1794853992958,1794853992971,NULL,1794853992620,1794853992971,NULL,0);
INSERT INTO "task_queue" VALUES(24,'fetch_page','default',5,'{"pages":1}','FAILED',NULL,NULL,1,1,0,0,0,1,'old-worker-8d8d392a7621',0,0,'the payload of task fetch_page has no n and an unknown pages; its parameters have changed',1794853992626,NULL,NULL,1794853992958,1794853992979,NULL,1794853992626,1794853992979,NULL,0);
INSERT INTO "task_queue" VALUES(25,'fetch_page','default',5,'{"n":21}','CANCELLED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794857596417,NULL,NULL,NULL,NULL,1794853996418,1794853996417,1794853996418,NULL,0);
INSERT INTO "task_queue" VALUES(26,'charge_card','default',5,'{"n":9}','QUEUED',NULL,'order-8',0,0,0,0,0,0,NULL,0,0,NULL,4102444800000,NULL,NULL,NULL,NULL,NULL,1794853996459,1794853996459,NULL,0);
INSERT INTO "task_queue" VALUES(27,'sync_order','default',5,'{"n":2}','QUEUED',NULL,NULL,1,1,0,0,0,1,'old-worker-72710bee7177',0,0,'connection reset by peer',1794854009087,NULL,NULL,1794854008063,NULL,NULL,1794854008045,1794854008087,NULL,0);
INSERT INTO "task_queue" VALUES(28,'import_feed','default',5,'{"n":2}','QUEUED',NULL,NULL,1,1,0,0,0,1,'old-worker-72710bee7177',0,0,'the feed did not answer',1794854009096,NULL,NULL,1794854008063,NULL,NULL,1794854008046,1794854008096,NULL,0);
INSERT INTO "task_queue" VALUES(29,'call_api','default',5,'{"n":1}','QUEUED','api.test',NULL,0,0,0,0,0,1,'old-worker-72710bee7177',1,0,'slow down',1794854009103,1794854008103,NULL,NULL,NULL,NULL,1794854008047,1794854008103,NULL,0);
INSERT INTO "task_queue" VALUES(30,'write_report','default',5,'{"n":1}','PARKED',NULL,NULL,0,0,0,0,0,1,'old-worker-72710bee7177',0,0,NULL,1794854008047,NULL,NULL,NULL,NULL,NULL,1794854008047,1794854008103,NULL,0);
INSERT INTO "task_queue" VALUES(31,'retired_task','default',5,'{}','PARKED',NULL,'retired',0,0,0,0,0,1,'old-worker-72710bee7177',0,0,NULL,1794854008047,NULL,NULL,NULL,NULL,NULL,1794854008047,1794854008103,NULL,0);
INSERT INTO "task_queue" VALUES(32,'call_slow_api','default',5,'{"n":0}','QUEUED','slow.test',NULL,0,0,0,0,0,0,NULL,0,0,NULL,4102444825535,NULL,NULL,NULL,NULL,NULL,1794854008113,1794854008113,NULL,0);
INSERT INTO "task_queue" VALUES(33,'call_slow_api','default',5,'{"n":1}','QUEUED','slow.test',NULL,0,0,0,0,0,0,NULL,0,0,NULL,4102444825535,NULL,NULL,NULL,NULL,NULL,1794854008114,1794854008114,NULL,0);
INSERT INTO "task_queue" VALUES(34,'send_mail','mail',5,'{"n":0}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794854008119,NULL,NULL,NULL,NULL,NULL,1794854008119,1794854008119,NULL,0);
INSERT INTO "task_queue" VALUES(35,'send_mail','mail',5,'{"n":1}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794854008126,NULL,NULL,NULL,NULL,NULL,1794854008126,1794854008126,NULL,0);
INSERT INTO "task_queue" VALUES(36,'send_mail','mail',5,'{"n":2}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794854008128,NULL,1794854009128,NULL,NULL,NULL,1794854008128,1794854008128,NULL,0);
INSERT INTO "task_queue" VALUES(37,'fetch_page','default',2,'{"n":30}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794854008130,NULL,NULL,NULL,NULL,NULL,1794854008130,1794854008130,NULL,0);
INSERT INTO "task_queue" VALUES(38,'charge_card','default',5,'{"n":30}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,1794854008131,NULL,NULL,NULL,NULL,NULL,1794854008131,1794854008131,NULL,0);
INSERT INTO "task_queue" VALUES(39,'fetch_page','default',5,'{"n":31}','QUEUED',NULL,'order-7',0,0,0,0,0,0,NULL,0,0,NULL,4102444800000,NULL,NULL,NULL,NULL,NULL,1794854008131,1794854008131,NULL,0);
INSERT INTO "task_queue" VALUES(40,'fetch_page','default',5,'{"n":32}','QUEUED',NULL,NULL,0,0,0,0,0,0,NULL,0,0,NULL,4102444800000,NULL,NULL,NULL,NULL,NULL,1794854008137,1794854008137,NULL,0);
INSERT INTO "task_queue" VALUES(41,'resize_image','images',5,'{"n":1}','QUEUED',NULL,NULL,2,0,1,1,0,4,'dying',0,0,'worker lost: its process died, or its lease ran out, while the task was running',1794854008158,NULL,NULL,1794854008171,NULL,NULL,1794854008158,1794854008175,NULL,0);
INSERT INTO "task_queue" VALUES(42,'resize_image','default',0,'{"n":2}','FAILED',NULL,NULL,4,0,3,0,0,8,'dying',0,0,'worker lost: its process died, or its lease ran out, while the task was running',1794854008181,NULL,NULL,1794854008204,1794854008206,NULL,1794854008181,1794854008206,NULL,0);
INSERT INTO "task_queue" VALUES(43,'resize_image','default',0,'{"n":3}','RUNNING',NULL,NULL,4,0,2,1,1,7,'lost-alone',0,0,'worker lost: its process died, or its lease ran out, while the task was running',1794854008212,NULL,NULL,1794854008230,NULL,NULL,1794854008212,1794854008230,NULL,0);
INSERT INTO "task_queue" VALUES(44,'fetch_page','default',0,'{"n":40}','RUNNING',NULL,NULL,1,0,0,0,0,1,'lost',0,0,NULL,1794854008228,NULL,NULL,1794854008231,NULL,NULL,1794854008228,1794854008231,NULL,0);
INSERT INTO "task_queue" VALUES(45,'fetch_page','default',0,'{"n":41}','RUNNING',NULL,NULL,0,0,0,0,0,1,'lost',0,0,NULL,1794854008228,NULL,NULL,NULL,NULL,NULL,1794854008228,1794854008232,NULL,0);
CREATE TABLE task_results (
    task_id    INTEGER PRIMARY KEY,
    result     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
INSERT INTO "task_results" VALUES(1,'"page 0"',1794940392807);
INSERT INTO "task_results" VALUES(2,'"page 1"',1794940392859);
INSERT INTO "task_results" VALUES(3,'"page 2"',1794940392897);
INSERT INTO "task_results" VALUES(4,'"page 3"',1794940392899);
INSERT INTO "task_results" VALUES(5,'"page 4"',1794940392900);
INSERT INTO "task_results" VALUES(6,'"page 5"',1794940392903);
CREATE TABLE workers (
    id           TEXT PRIMARY KEY,
    name         TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    queues       TEXT    NOT NULL,
    concurrency  INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
, schema_version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('lost','name','host',42,'["default"]',10,'running',1794854008231,1794854008231,1794854009231,6);
INSERT INTO "workers" VALUES('lost-alone','name','host',42,'["default"]',10,'running',1794854008228,1794854008228,1794854009228,6);
CREATE INDEX task_queue_ready ON task_queue (queue, priority, next_run_after, id)
    WHERE status = 'QUEUED' AND suspect = 0;
CREATE INDEX task_queue_suspects ON task_queue (queue, next_run_after, id) WHERE status = 'QUEUED' AND suspect = 1;
CREATE INDEX task_queue_held ON task_queue (worker_id) WHERE status = 'RUNNING';
CREATE INDEX task_queue_resource ON task_queue (resource, next_run_after)
    WHERE status = 'QUEUED' AND resource IS NOT NULL;
CREATE INDEX task_queue_parked ON task_queue (task_type) WHERE status = 'PARKED';
CREATE UNIQUE INDEX task_queue_unique ON task_queue (task_type, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED');
CREATE INDEX task_attempts_task ON task_attempts (task_id, id);
CREATE INDEX task_results_expiry ON task_results (expires_at);
CREATE INDEX dead_letter_queue_moved ON dead_letter_queue (moved_to_dlq_at);
CREATE INDEX sources_due ON sources (profile, max(next_poll_at, coalesce(not_before, 0))) WHERE state <> 'disabled';
CREATE INDEX sources_probed ON sources (profile, coalesce(not_before, 0)) WHERE state = 'disabled' AND disabled_by = 'rule';
CREATE INDEX sources_cycle ON sources (cycle, outcome);
CREATE INDEX sources_leased ON sources (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX source_polls_source ON source_polls (source_id, id);
CREATE UNIQUE INDEX cycles_running ON cycles (profile) WHERE ended_at IS NULL;
CREATE INDEX cycles_profile ON cycles (profile, id);
CREATE INDEX alerts_key ON alerts (key, id);
CREATE INDEX alerts_waiting ON alerts (id) WHERE delivered_at IS NULL;
CREATE INDEX alerts_waiting_by_key ON alerts (key, id) WHERE delivered_at IS NULL;
CREATE INDEX alerts_done ON alerts (delivered_at) WHERE delivered_at IS NOT NULL;
CREATE INDEX job_runs_job ON job_runs (job, started_at, id);
CREATE INDEX job_runs_started ON job_runs (started_at, id);
CREATE INDEX job_runs_ended ON job_runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX job_targets_left ON job_targets (run_id, source_id, status, fingerprint)
    WHERE status IN ('failed', 'deferred');
CREATE INDEX failure_groups_latest ON failure_groups (last_seen, fingerprint);
CREATE INDEX failure_groups_largest ON failure_groups (failures, fingerprint);
CREATE INDEX failure_groups_first ON failure_groups (first_seen);
CREATE INDEX failure_groups_category_latest ON failure_groups (error_category, last_seen, fingerprint);
CREATE INDEX failure_groups_category_largest ON failure_groups (error_category, failures, fingerprint);
CREATE INDEX failure_groups_task_latest ON failure_groups (task_type, last_seen, fingerprint);
CREATE INDEX failure_groups_task_largest ON failure_groups (task_type, failures, fingerprint);
CREATE INDEX failure_flow_age ON failure_flow (span, at);
CREATE INDEX breakers_process ON breakers (process);
CREATE INDEX task_queue_retries ON task_queue (next_run_after) WHERE status = 'QUEUED' AND retry_count > 0;
CREATE INDEX task_attempts_groups ON task_attempts (fingerprint, id);
CREATE INDEX dead_letter_queue_fingerprint ON dead_letter_queue (fingerprint);
CREATE INDEX dead_letter_queue_task ON dead_letter_queue (task_type);
CREATE INDEX dead_letter_queue_category ON dead_letter_queue (error_category);
CREATE INDEX sources_state ON sources (state);
CREATE INDEX source_polls_changes ON source_polls (at) WHERE after IS NOT NULL;
CREATE INDEX job_runs_running ON job_runs (started_at) WHERE ended_at IS NULL;
CREATE INDEX replays_running ON replays (id) WHERE state = 'running';
CREATE INDEX task_queue_canaries ON task_queue (replay_id) WHERE canary = 1;
CREATE INDEX dead_letter_queue_replays ON dead_letter_queue (replay_id) WHERE replay_id IS NOT NULL;
CREATE INDEX payload_edits_task ON payload_edits (task_id);
CREATE INDEX audit_log_subject ON audit_log (subject);
CREATE INDEX audit_log_action ON audit_log (action);
CREATE INDEX failure_groups_untold ON failure_groups (first_seen) WHERE told = 0;
CREATE INDEX resource_slots_resource ON resource_slots (resource);
CREATE INDEX task_queue_celery ON task_queue (unique_key) WHERE unique_key >= 'celery:' AND unique_key < 'celery;';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('task_queue',45);
INSERT INTO "sqlite_sequence" VALUES('task_attempts',33);
INSERT INTO "sqlite_sequence" VALUES('dead_letter_queue',20);
INSERT INTO "sqlite_sequence" VALUES('alerts',13);
INSERT INTO "sqlite_sequence" VALUES('audit_log',9);
INSERT INTO "sqlite_sequence" VALUES('payload_edits',1);
INSERT INTO "sqlite_sequence" VALUES('replays',3);
INSERT INTO "sqlite_sequence" VALUES('sources',9);
INSERT INTO "sqlite_sequence" VALUES('cycles',7);
INSERT INTO "sqlite_sequence" VALUES('source_polls',33);
COMMIT;