
-- No lease has run out.
local limit, lease = argv[5] + 0, argv[6] + 0
local function quick(key, at)
  local micros = second * 1000000 + (nano - nano % 1000) / 1000
  local used, fence = 0, micros
  -- The last number and what is held are below 0, so they come first; then comes the lease that runs out next.
  local first = call('ZRANGE', key, 0, 2, 'WITHSCORES')
  if first[1] then
    if first[1] ~= 'fence' or first[3] ~= 'total' or not first[6] or first[6] + 0 <= micros then return nil end
    used, fence = -first[4], math.max(fence, 1 - first[2])
  end
  fence = math.max(1, fence)
  local ends = nano + lease
  ends = second * 1000000 + (ends + -ends % 1000) / 1000
  local members, count, next = {}, 0, at + 1
  for _ = 1, argv[at] do
    local text = argv[next + 1]
    local cost = text + 0
    if cost == 0 or cost > limit then return nil end
    local demands = argv[next] + 0
    local fits = fitting(demands, cost, limit - used)
    if fits > 0 then
      grant(fits, limit - (dry and used or used + cost), '', '', 0, 0, 0)
      if not dry then
        -- Its moment is that of its number, and each further lease has the next number.
        local rest = fence % 1000000
        out[size] = string.format('%d.%d', (fence - rest) / 1000000, rest * 1000)
        if fits > 1 then out[size - 7] = 6 end
        for id = next + 2, next + 1 + fits do
          members[count + 1], members[count + 2] = ends, argv[id] .. ':' .. text
          count = count + 2
        end
        used, fence = used + fits * cost, fence + fits
      end
    end
    if fits < demands then
      -- Leases that last longer than new ones were written before the clock stepped back. See concurrency.lua.
      if micros % 64 == 0 or (first[6] and first[6] - micros > lease / 1000 + 1000) then return nil end
      refuse(demands - fits, '', math.max(0, limit - used), '')
    end
    next = next + 2 + argv[next]
  end
  if count > 0 then
    call('ZADD', key, -used, 'total', 1 - fence, 'fence', unpack(members))
    local millis = hand and 3600000 or (lease + -lease % 1000000) / 1000000 + 1
    if call('PTTL', key) < millis then call('PEXPIRE', key, millis) end
  end
  return next
end
