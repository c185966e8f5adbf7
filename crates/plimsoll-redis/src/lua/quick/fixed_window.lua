-- A window that is current, or a new one.
local limit, window = argv[5] + 0, argv[6] + 0
local passed, start = current(argv[7], window)
local function quick(key, at)
  if not passed then return nil end
  local used, span = 0, window - passed
  local text = call('GET', key)
  if text then
    local began, count, length = string.match(text, '^(%S+) (%d+) (%w+) %S+$')
    if length ~= argv[6] then return nil end
    if began == start then
      used = count + 0
      if used > limit then return nil end
    elseif not passed_since(began, start) then
      return nil
    end
  end
  local before = used
  local last = at + 2 * argv[at]
  for run = at + 1, last, 2 do
    local cost = argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    for _ = 1, argv[run] do
      if used + cost > limit then
        out[size + 1], out[size + 2] = 0, 'exhausted'
        out[size + 3], out[size + 4], out[size + 5] = span, limit - used, span
        size = size + 5
      elseif dry then
        local after = used > 0 and span or ''
        out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 1, limit - used, after, after, stamp
        size = size + 5
      else
        used = used + cost
        out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 1, limit - used, span, span, stamp
        size, stamp = size + 5, 0
      end
    end
  end
  if used > before then
    local millis = hand and 3600000 or (span + -span % 1000000) / 1000000 + 1
    call('SET', key, string.format('%s %.0f %s %s', start, used, argv[6], moment), 'PX', millis)
  end
  return last + 1
end
