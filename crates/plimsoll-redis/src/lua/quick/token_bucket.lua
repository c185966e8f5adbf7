
-- One greedy bucket that is full when it is new.
local burst, refill, period = argv[7] + 0, argv[9] + 0, argv[10] + 0
local capacity = burst * period
local terms = ' g' .. argv[7] .. '/' .. argv[9] .. '/' .. argv[10]
local function quick(key, at)
  local missing = 0
  local text = call('GET', key)
  if text then
    local s, n, kept, known = string.match(text, '^(%d+)%.(%d+) (%d+)( .+)$')
    if known ~= terms then return nil end
    local span = (second - s) * 1000000000 + nano - n
    if span < 0 or kept + 0 > capacity then return nil end
    missing = kept - span * refill
    if missing < 0 then missing = 0 end
  end
  local before = missing
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local count, cost = argv[run] + 0, argv[run + 1] + 0
    if cost == 0 or cost > burst then return nil end
    local parts = cost * period
    local fits = fitting(count, parts, capacity - missing)
    if fits > 0 then
      local owed = dry and missing or missing + parts
      local free = capacity - owed
      local part = free % period
      local rest = period - part
      if owed == 0 then
        grant(1, burst, '', '')
      else
        local full = (owed + -owed % refill) / refill
        grant(fits, (free - part) / period, (rest + -rest % refill) / refill, full, owed, parts, refill)
      end
      if not dry then missing = missing + fits * parts end
    end
    if fits < count then
      local free, over = capacity - missing, missing + parts - capacity
      local full = (missing + -missing % refill) / refill
      refuse(count - fits, (over + -over % refill) / refill, (free - free % period) / period, full)
    end
  end
  if missing > before then
    write(key, moment .. ' ' .. string.format('%d', missing) .. terms, (missing + -missing % refill) / refill)
  end
  return last + 1
end
