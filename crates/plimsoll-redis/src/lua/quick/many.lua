
-- The quick way for several limits: each by the quick way of its kind, on arguments of its own. Nothing is written before all
-- have decided. If one refuses, all are looked at again, without effect. See ../many.lua.

local quicks, queued = {}, {}

-- How many arguments a kind has.
local lengths = { w = 3, s = 4, c = 3, b = 7, l = 4, k = 2 }

local reads = { GET = true, ZRANGE = true, ZRANGEBYSCORE = true, ZSCORE = true, ZCOUNT = true, PTTL = true }

-- Texts that are written last, by key: several decisions about one key write it once.
local texts = {}

local function call(name, key, ...)
  if not reads[name] then
    queued[#queued + 1] = { name, key, ... }
    return
  end
  if name == 'GET' and texts[key] then return texts[key][3] end
  return redis.call(name, key, ...)
end
