
-- One greedy bucket that is full when it is new.
local function quick()
  local cost, burst, refill, period = ARGV[3] + 0, ARGV[7] + 0, ARGV[9] + 0, ARGV[10] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > burst then return nil end
  local capacity, missing = burst * period, 0
  local terms = 'g' .. ARGV[7] .. '/' .. ARGV[9] .. '/' .. ARGV[10]
  local text = call('GET', KEYS[1])
  if text then
    local s, n, kept, known = string.match(text, '^(%d+)%.(%d+) (%d+) (%S+)$')
    if known ~= terms then return nil end
    local span = (second - s) * 1000000000 + nano - n
    if span < 0 or kept + 0 > capacity then return nil end
    missing = kept - span * refill
    if missing < 0 then missing = 0 end
  end
  local after = missing + cost * period
  local over = after - capacity
  if over > 0 then
    local held = capacity - missing
    local left, full = (held - held % period) / period, (missing + -missing % refill) / refill
    return { 0, 1, 'exhausted', (over + -over % refill) / refill, left, full }
  end
  local full = (after + -after % refill) / refill
  local millis = hand and 3600000 or (full + -full % 1000000) / 1000000 + 1
  local moment = string.format('%d.%d', second, nano)
  call('SET', KEYS[1], string.format('%s %.0f %s', moment, after, terms), 'PX', millis)
  local part = -over % period
  local rest = period - part
  return { 1, (-over - part) / period, (rest + -rest % refill) / refill, full, moment }
end
