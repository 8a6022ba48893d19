DELETE FROM holdfast.breakers WHERE process = %(process)s
