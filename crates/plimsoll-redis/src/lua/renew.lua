-- Makes leases last longer.
--
-- KEYS: the key of the limit. ARGV: nothing, the time or nothing (see time.lua), the length of a lease; then the members to
-- renew, `id:cost`. Answers for each 1, or 0 if it is gone: it had run out, and what it held is free or another's.
-- One that has run out and that nobody has thrown away yet still holds what it held, so it can go on.

local lease = number_of(ARGV[3])
local ends = plus(now, lease)
local micros = string.format('%.0f', ends.s * 1000000 + math.ceil(ends.n / 1000))
local answer, any = {}, false
for i = 4, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], micros, ARGV[i])
    answer[#answer + 1], any = 1, true
  else
    answer[#answer + 1] = 0
  end
end
local span = tonumber(lifetime(lease))
if any and redis.call('PTTL', KEYS[1]) < span then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', span))
end
return answer
