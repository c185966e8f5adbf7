
-- No gap to keep, something in the window, nothing at this very moment, and nobody who asks by other terms.
local function quick()
  local cost, limit, window = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit or second * 1000000000 < window then return nil end
  local newest = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  if not newest[1] then return nil end
  if not call('ZSCORE', KEYS[1], 'm' .. ARGV[5] .. '/' .. ARGV[6]) then return nil end
  local rest = nano % 1000
  local micros = second * 1000000 + (nano - rest) / 1000
  local newest_rest, sum = string.match(newest[1], '^(%d%d%d):(%d+):%d+$')
  -- The span since the newest entry.
  local since = sum and (micros - newest[2]) * 1000 + rest - newest_rest
  if not since or since <= 0 or since >= window then return nil end
  -- The first entry that counts: nothing before it is looked at. What is exactly at the border may or may not count.
  local border_rest = (rest - window) % 1000
  local border = micros - (window - rest + border_rest) / 1000
  local first = call('ZRANGEBYSCORE', KEYS[1], border, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local first_rest, first_sum, first_cost = string.match(first[1], '^(%d%d%d):(%d+):(%d+)$')
  if not first_rest or first[2] + 0 == border or first_cost == '0' then return nil end
  local used = sum - first_sum + first_cost
  if used > limit then return nil end
  -- The span until it leaves.
  local leaves = (first[2] - micros) * 1000 + first_rest - rest + window
  if used + cost > limit then
    -- More must leave than the first entry, or the refusal counts.
    if used + cost - limit > first_cost + 0 or ARGV[8] == '1' then return nil end
    return { 0, 1, 'exhausted', leaves, limit - used, window - since }
  end
  call('ZREMRANGEBYSCORE', KEYS[1], '0', string.format('(%.0f', border))
  call('ZADD', KEYS[1], micros, string.format('%03d:%.0f:%s', rest, sum + cost, ARGV[3]))
  call('PEXPIRE', KEYS[1], hand and 3600000 or (window + -window % 1000000) / 1000000 + 1)
  return { 1, limit - used - cost, leaves, window, string.format('%d.%d', second, nano) }
end
