SELECT count(*) FROM outlast.dead_letter_queue
--which--
