"""Natural language inference: ESIM (Chen et al. 2017; Peters et al. 2018, section 4)."""
