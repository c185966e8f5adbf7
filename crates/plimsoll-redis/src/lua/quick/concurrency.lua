
-- No lease has run out.
local function quick()
  local cost, limit, lease = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit then return nil end
  local micros = second * 1000000 + (nano - nano % 1000) / 1000
  local used, fence = 0, math.max(1, micros)
  -- The last number and what is held are below 0, so they come first; then comes the lease that runs out next.
  local first = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if first[1] then
    if first[1] ~= 'fence' or first[3] ~= 'total' or not first[6] or first[6] + 0 <= micros then return nil end
    used, fence = -first[4], math.max(fence, 1 - first[2])
  end
  if used + cost > limit then
    -- Leases that last longer than new ones were written before the clock stepped back. See concurrency.lua.
    if micros % 64 == 0 or (first[6] and first[6] - micros > lease / 1000 + 1000) then return nil end
    return { 0, 1, 'exhausted', '', math.max(0, limit - used), '' }
  end
  used = used + cost
  local ends = nano + lease
  ends = second * 1000000 + (ends + -ends % 1000) / 1000
  call('ZADD', KEYS[1], ends, ARGV[7] .. ':' .. ARGV[3], -used, 'total', -fence, 'fence')
  local millis = hand and 3600000 or (lease + -lease % 1000000) / 1000000 + 1
  if call('PTTL', KEYS[1]) < millis then call('PEXPIRE', KEYS[1], millis) end
  local rest = fence % 1000000
  return { 1, limit - used, '', '', string.format('%d.%d', (fence - rest) / 1000000, rest * 1000) }
end
