"""Speed, as ratios against peers and the raw limit in one interleaved run."""
