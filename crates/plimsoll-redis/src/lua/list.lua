-- A list of demands on one limit, decided one after the other in one call.
--
-- ARGV[3] is the place in ARGV of the first list; there is one for each key: how many runs, and for each run the number of
-- demands, their cost, and where there are leases the id of each. The answers to all of them are in one list, in order.
-- Each is what `take` would answer by itself, or 2 and an error that concerns only its key. Demands of a run that are answered
-- alike may be answered together: 3, 5 or 6, how many, and their grants (see quick/answer.lua), or 4, how many, and their refusal.

local out, size = {}, 0
local list, done = ARGV[3] + 0, 0

