SELECT count(*) FROM holdfast.dead_letter_queue
--which--
