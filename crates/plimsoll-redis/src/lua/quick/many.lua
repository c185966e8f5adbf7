
-- The quick way for several limits: each by the quick way of its kind, on arguments of its own. Nothing is written before all
-- have decided. If one refuses, all are looked at again, without effect. See ../many.lua.

local quicks, queued = {}, {}

-- How many arguments a kind has.
local lengths = { w = 3, s = 4, c = 3, b = 7, l = 4, k = 2 }

local reads = { GET = true, ZRANGE = true, ZRANGEBYSCORE = true, ZSCORE = true, ZCOUNT = true, PTTL = true }

local function call(name, ...)
  if reads[name] then return redis.call(name, ...) end
  queued[#queued + 1] = { name, ... }
end
