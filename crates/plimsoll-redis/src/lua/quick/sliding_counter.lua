-- Counts of the current window and the one before, or of windows before them.
local limit, window = argv[5] + 0, argv[6] + 0
local passed, start = current(argv[7], window)
local function quick(key, at)
  if not passed then return nil end
  local used, before = 0, 0
  local text = call('GET', key)
  if text then
    local began, count, previous, length = string.match(text, '^(%S+) (%d+) (%d+) (%w+) %S+$')
    if length ~= argv[6] then return nil end
    if began == start then
      used, before = count + 0, previous + 0
    else
      local span = passed_since(began, start)
      if not span then return nil end
      if span <= window then before = count + 0 end
    end
    if used > limit or before > limit then return nil end
  end
  -- What is available beside `taken`.
  local fading = before * (window - passed)
  local function room(taken)
    local free = (limit - taken) * window - fading
    if free < 0 then return 0 end
    return (free - free % window) / window
  end
  -- The span into a window after which `more` fits beside `taken` while `counted` fades; nil if that is not in the window.
  local function fits_after(taken, counted, more)
    local beside = limit - taken - more
    if beside < 0 then return nil end
    if counted <= beside then return 0 end
    local span = window * (counted - beside)
    span = (span + -span % counted) / counted
    if span < window then return span end
  end
  local function wait(taken, more)
    local span = fits_after(taken, before, more)
    if not span then span = window + (fits_after(0, taken, more) or window) end
    return math.max(0, span - passed)
  end
  local read, left, full = used, room(used), 2 * window - passed
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local count, cost = argv[run] + 0, argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    local fits = fitting(count, cost, left)
    if fits > 0 then
      if not dry then used, left = used + cost, left - cost end
      local all = used > 0 and full or window - passed
      if left == limit then
        grant(fits, left, '', '')
      elseif before == 0 and fits > 1 then
        -- The more is used, the sooner the next window has room for one more.
        out[size + 1], out[size + 2], out[size + 3], out[size + 4] = 5, fits, left, window - passed
        out[size + 5], out[size + 6], out[size + 7], out[size + 8] = all, used, window, stamp
        size, stamp = size + 8, 0
      else
        -- What is used and what is left add up to the same after each of them. So while the window before counts, there is more at
        -- the same time.
        grant(fits, left, wait(used, left + 1), all)
      end
      if not dry then used, left = used + (fits - 1) * cost, left - (fits - 1) * cost end
    end
    if fits < count then
      refuse(count - fits, wait(used, cost), left, used > 0 and full or window - passed)
    end
  end
  if used > read then
    write(key, string.format('%s %d %d %s %s', start, used, before, argv[6], moment), full)
  end
  return last + 1
end
