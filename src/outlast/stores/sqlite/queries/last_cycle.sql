-- By name: where nearly all cycles are of another profile, the table itself looks cheaper than it is.
INDEXED BY cycles_profile
WHERE profile = :profile AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1
