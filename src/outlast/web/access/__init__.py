"""Who may come in: the gate before every request, and the ways of showing who one is."""
