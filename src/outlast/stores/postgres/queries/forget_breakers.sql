DELETE FROM outlast.breakers WHERE process = %(process)s
