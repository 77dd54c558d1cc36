"""What `glassformer explain` shows: a walk through one attention, who "it" is, whose W_K and W_V it is."""
