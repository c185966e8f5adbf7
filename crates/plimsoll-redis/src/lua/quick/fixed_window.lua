-- A window that is current, or the first one.
local function quick()
  local cost, limit, window = ARGV[3] + 0, ARGV[5] + 0, ARGV[6] + 0
  if ARGV[1] ~= 'take' or cost == 0 or cost > limit then return nil end
  local passed, start = current(ARGV[7], window)
  if not passed then return nil end
  local used, span = 0, window - passed
  local text = call('GET', KEYS[1])
  if text then
    local began, count, length = string.match(text, '^(%S+) (%d+) (%w+) %S+$')
    if began ~= start or length ~= ARGV[6] then return nil end
    used = count + 0
    if used > limit then return nil end
  end
  if used + cost > limit then
    return { 0, 1, 'exhausted', span, limit - used, span }
  end
  used = used + cost
  local millis = hand and 3600000 or (span + -span % 1000000) / 1000000 + 1
  local moment = string.format('%d.%d', second, nano)
  call('SET', KEYS[1], string.format('%s %.0f %s %s', start, used, ARGV[6], moment), 'PX', millis)
  return { 1, limit - used, span, span, moment }
end
