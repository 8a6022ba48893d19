"""A Celery app whose failures Holdfast looks after."""
