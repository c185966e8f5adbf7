-- Several decisions, each about several limits, decided one after the other in one call. See many.lua.

local decisions, begins, first = {}, 4, 1

