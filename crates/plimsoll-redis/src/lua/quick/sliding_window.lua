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
    local cost = argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    for _ = 1, argv[run] do
      if used + cost > limit then
        -- With the oldest segment goes at least 1.
        if used + cost > limit + 1 then return nil end
        out[size + 1], out[size + 2] = 0, 'exhausted'
        out[size + 3], out[size + 4], out[size + 5] = more, limit - used, full
        size = size + 5
      elseif dry then
        if used == 0 then more, full = '', '' end
        out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 1, limit - used, more, full, stamp
        size = size + 5
      else
        used = used + cost
        out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 1, limit - used, more, full, stamp
        size, stamp = size + 5, 0
      end
    end
  end
  local taken = used - kept
  if taken > 0 then
    local millis = hand and 3600000 or (full + -full % 1000000) / 1000000 + 1
    text = string.format('%s %s %.0f %s%s%.0f', base, division, used, moment, middle, count + taken)
    call('SET', key, text, 'PX', millis)
  end
  return last + 1
end
