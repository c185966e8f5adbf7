
-- One greedy bucket that is full when it is new.
local burst, refill, period = argv[7] + 0, argv[9] + 0, argv[10] + 0
local function quick(key, at)
  local capacity, missing = burst * period, 0
  local terms = 'g' .. argv[7] .. '/' .. argv[9] .. '/' .. argv[10]
  local text = call('GET', key)
  if text then
    local s, n, kept, known = string.match(text, '^(%d+)%.(%d+) (%d+) (%S+)$')
    if known ~= terms then return nil end
    local span = (second - s) * 1000000000 + nano - n
    if span < 0 or kept + 0 > capacity then return nil end
    missing = kept - span * refill
    if missing < 0 then missing = 0 end
  end
  local before, full = missing, nil
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local cost = argv[run + 1] + 0
    if cost == 0 or cost > burst then return nil end
    for _ = 1, argv[run] do
      local after = missing + cost * period
      local over = after - capacity
      if over > 0 then
        local held = capacity - missing
        out[size + 1], out[size + 2] = 0, 'exhausted'
        out[size + 3] = (over + -over % refill) / refill
        out[size + 4] = (held - held % period) / period
        out[size + 5] = (missing + -missing % refill) / refill
        size = size + 5
      else
        if dry then over = missing - capacity else missing = after end
        full = (missing + -missing % refill) / refill
        local part = -over % period
        local rest = period - part
        out[size + 1], out[size + 2] = 1, (-over - part) / period
        out[size + 3], out[size + 4], out[size + 5] = (rest + -rest % refill) / refill, full, stamp
        if missing == 0 then out[size + 3], out[size + 4] = '', '' end
        size, stamp = size + 5, 0
      end
    end
  end
  if missing > before then
    local millis = hand and 3600000 or (full + -full % 1000000) / 1000000 + 1
    call('SET', key, string.format('%s %.0f %s', moment, missing, terms), 'PX', millis)
  end
  return last + 1
end
