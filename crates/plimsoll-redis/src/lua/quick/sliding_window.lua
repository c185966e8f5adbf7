-- A window whose newest segment is the current one.
local limit, window, segments = argv[5] + 0, argv[6] + 0, argv[7] + 0
local passed, base = current(argv[8], window)
local function quick(key, at)
  if not passed then return nil end
  local text = call('GET', key)
  if not text then return nil end
  -- The last count is that of the newest segment. All before it stay as they are.
  local began, division, kept, middle, count = string.match(text, '^(%S+) (%S+) (%d+) %S+( [^;]+:)(%d+)$')
  if began ~= base or division ~= argv[7] .. '/' .. argv[6] then return nil end
  local scaled = passed * segments
  local newest = (scaled - scaled % window) / window
  local oldest, latest = string.match(middle, '^ (%-?%d+):'), string.match(middle, ' (%-?%d+):$', -7)
  if not latest or latest + 0 ~= newest or oldest + 0 <= newest - segments then return nil end
  -- When a segment leaves.
  local function leaves(index)
    local parts = (index + segments) * window
    return (parts + -parts % segments) / segments - passed
  end
  local used, more, full = kept + 0, leaves(oldest), leaves(newest)
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local demands, cost = argv[run] + 0, argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    local fits = fitting(demands, cost, limit - used)
    if fits > 0 then
      local after = dry and used or used + cost
      if after == 0 then more, full = '', '' end
      grant(fits, limit - after, more, full)
      if not dry then used = used + fits * cost end
    end
    if fits < demands then
      -- With the oldest segment goes at least 1.
      if used + cost > limit + 1 then return nil end
      refuse(demands - fits, more, limit - used, full)
    end
  end
  local taken = used - kept
  if taken > 0 then
    write(key, string.format('%s %s %d %s%s%d', base, division, used, moment, middle, count + taken), full)
  end
  return last + 1
end
