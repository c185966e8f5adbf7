
-- No gap to keep, something in the window, nobody who asks by other terms, and something left of what came last.
local limit, window = argv[5] + 0, argv[6] + 0
local function quick(key, at)
  if second * 1000000000 < window then return nil end
  local newest = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if not newest[1] then return nil end
  if not call('ZSCORE', key, 'm' .. argv[5] .. '/' .. argv[6]) then return nil end
  local rest = nano % 1000
  local micros = second * 1000000 + (nano - rest) / 1000
  local newest_rest, sum, newest_cost = string.match(newest[1], '^(%d%d%d):(%d+):(%d+)$')
  -- The span since the newest entry.
  local since = sum and (micros - newest[2]) * 1000 + rest - newest_rest
  if not since or newest_cost == '0' or since < 0 or since >= window then return nil end
  -- The first entry that counts: nothing before it is looked at. What is exactly at the border may or may not count.
  local border_rest = (rest - window) % 1000
  local border = micros - (window - rest + border_rest) / 1000
  local first = call('ZRANGEBYSCORE', key, border, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local first_rest, first_sum, first_cost = string.match(first[1], '^(%d%d%d):(%d+):(%d+)$')
  if not first_rest or first[2] + 0 == border or first_cost == '0' then return nil end
  local used, taken = sum - first_sum + first_cost, 0
  if used > limit then return nil end
  -- The span until it leaves.
  local leaves = (first[2] - micros) * 1000 + first_rest - rest + window
  local full = window - since
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local count, cost = argv[run] + 0, argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    local fits = fitting(count, cost, limit - used)
    if fits > 0 then
      if not dry then used, taken, full = used + cost, taken + fits * cost, window end
      grant(fits, limit - used, leaves, full)
      if not dry then used = used + (fits - 1) * cost end
    end
    if fits < count then
      -- More must leave than the first entry, or the refusal counts.
      if used + cost - limit > first_cost + 0 or argv[8] == '1' then return nil end
      refuse(count - fits, leaves, limit - used, full)
    end
  end
  if taken > 0 then
    call('ZREMRANGEBYSCORE', key, '0', string.format('(%.0f', border))
    local entry = taken
    if since == 0 then
      -- One entry for each moment.
      call('ZREM', key, newest[1])
      entry = taken + newest_cost
    end
    call('ZADD', key, micros, string.format('%03d:%d:%d', rest, sum + taken, entry))
    call('PEXPIRE', key, hand and 3600000 or (window + -window % 1000000) / 1000000 + 1)
  end
  return last + 1
end
