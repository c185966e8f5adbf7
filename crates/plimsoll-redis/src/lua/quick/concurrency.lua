
-- No lease has run out.
local function quick()
  local cost, limit, lease = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit then return nil end
  local used = 0
  -- What is held is below 0, so it comes first; then comes the lease that runs out next.
  local first = call('ZRANGE', KEYS[1], 0, 1, 'WITHSCORES')
  if first[1] then
    local micros = second * 1000000 + (nano - nano % 1000) / 1000
    if first[1] ~= 'total' or not first[4] or first[4] + 0 <= micros then return nil end
    used = -first[2]
  end
  if used + cost > limit then return { 0, 1, 'exhausted', '', math.max(0, limit - used), '' } end
  used = used + cost
  local ends = nano + lease
  ends = second * 1000000 + (ends + -ends % 1000) / 1000
  call('ZADD', KEYS[1], ends, ARGV[7] .. ':' .. ARGV[3], -used, 'total')
  local millis = hand and 3600000 or (lease + -lease % 1000000) / 1000000 + 1
  if call('PTTL', KEYS[1]) < millis then call('PEXPIRE', KEYS[1], millis) end
  return { 1, limit - used, '', '', string.format('%d.%d', second, nano) }
end
