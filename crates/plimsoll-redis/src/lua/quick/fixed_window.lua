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
    local count, cost = argv[run] + 0, argv[run + 1] + 0
    if cost == 0 or cost > limit then return nil end
    local fits = fitting(count, cost, limit - used)
    if fits > 0 then
      local after = dry and used or used + cost
      local more = after > 0 and span or ''
      grant(fits, limit - after, more, more)
      if not dry then used = used + fits * cost end
    end
    if fits < count then refuse(count - fits, span, limit - used, span) end
  end
  if used > before then
    write(key, string.format('%s %d %s %s', start, used, argv[6], moment), span)
  end
  return last + 1
end
