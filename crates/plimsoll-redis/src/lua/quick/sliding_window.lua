-- A window whose newest segment is the current one.
local function quick()
  local cost, limit, window, segments = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit then return nil end
  local passed, base = current(ARGV[8], window)
  if not passed then return nil end
  local text = call('GET', KEYS[1])
  if not text then return nil end
  -- The last count is that of the newest segment. All before it stay as they are.
  local began, division, used, middle, count = string.match(text, '^(%S+) (%S+) (%d+) %S+( [^;]+:)(%d+)$')
  if began ~= base or division ~= ARGV[7] .. '/' .. ARGV[6] then return nil end
  local scaled = passed * segments
  local newest = (scaled - scaled % window) / window
  local oldest, last = string.match(middle, '^ (%-?%d+):'), string.match(middle, ' (%-?%d+):$', -7)
  if not last or last + 0 ~= newest or oldest + 0 <= newest - segments then return nil end
  -- When a segment leaves.
  local function leaves(index)
    local parts = (index + segments) * window
    return (parts + -parts % segments) / segments - passed
  end
  used = used + cost
  if used > limit then
    -- With the oldest segment goes at least 1.
    if used > limit + 1 then return nil end
    return { 0, 1, 'exhausted', leaves(oldest), limit + cost - used, leaves(newest) }
  end
  local full = leaves(newest)
  local millis = hand and 3600000 or (full + -full % 1000000) / 1000000 + 1
  local moment = string.format('%d.%d', second, nano)
  text = string.format('%s %s %.0f %s%s%.0f', base, division, used, moment, middle, count + cost)
  call('SET', KEYS[1], text, 'PX', millis)
  return { 1, limit - used, leaves(oldest), full, moment }
end
