-- Counts of the current window and the one before, or none.
local function quick()
  local cost, limit, window = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit then return nil end
  local passed, start = current(ARGV[7], window)
  if not passed then return nil end
  local used, before = 0, 0
  local text = call('GET', KEYS[1])
  if text then
    local began, count, previous, length = string.match(text, '^(%S+) (%d+) (%d+) (%w+) %S+$')
    if began ~= start or length ~= ARGV[6] then return nil end
    used, before = count + 0, previous + 0
    if used > limit or before > limit then return nil end
  end
  -- What is available beside `taken`.
  local function room(taken)
    local free = (limit - taken) * window - before * (window - passed)
    if free < 0 then return 0 end
    return (free - free % window) / window
  end
  -- The span into a window after which `more` fits beside `taken` while `fading` fades; nil if that is not in the window.
  local function fits_after(taken, fading, more)
    local beside = limit - taken - more
    if beside < 0 then return nil end
    if fading <= beside then return 0 end
    local span = window * (fading - beside)
    span = (span + -span % fading) / fading
    if span < window then return span end
  end
  local function wait(taken, more)
    local span = fits_after(taken, before, more)
    if not span then span = window + (fits_after(0, taken, more) or window) end
    return math.max(0, span - passed)
  end
  local left = room(used)
  if cost > left then
    local full = window - passed
    if used > 0 then full = full + window end
    return { 0, 1, 'exhausted', wait(used, cost), left, full }
  end
  used = used + cost
  left = room(used)
  local full = 2 * window - passed
  local millis = hand and 3600000 or (full + -full % 1000000) / 1000000 + 1
  local moment = string.format('%d.%d', second, nano)
  call('SET', KEYS[1], string.format('%s %.0f %.0f %s %s', start, used, before, ARGV[6], moment), 'PX', millis)
  return { 1, left, wait(used, left + 1), full, moment }
end
