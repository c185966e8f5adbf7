-- Several decisions, each about several limits, decided one after the other in one call. See many.lua.

-- `answered` is how many of the run of decisions that begins at `begins` were answered.
local decisions, begins, first, answered = {}, 4, 1, 0

