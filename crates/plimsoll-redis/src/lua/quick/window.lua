-- As `stretch` in time.lua: how much of the current stretch has passed, and the moment it began as it is written; nil if
-- it is neither whole seconds nor a part of one.
local function current(origin, length)
  local s, n = second, nano
  if origin ~= '0.0' then
    local os, on = string.match(origin, '^(%d+)%.(%d+)$')
    s, n = s - os, n - on
    if n < 0 then s, n = s - 1, n + 1000000000 end
    if s < 0 then return nil end
  end
  local passed
  if length % 1000000000 == 0 then
    passed = s % (length / 1000000000) * 1000000000 + n
  elseif 1000000000 % length == 0 then
    passed = n % length
  else
    return nil
  end
  n = passed % 1000000000
  s, n = second - (passed - n) / 1000000000, nano - n
  if n < 0 then s, n = s - 1, n + 1000000000 end
  return passed, string.format('%d.%d', s, n)
end

-- The span between the beginning of an earlier stretch and that of the current one; nil if it is not earlier.
local function passed_since(began, start)
  local s, n = string.match(began, '^(%d+)%.(%d+)$')
  local cs, cn = string.match(start, '^(%d+)%.(%d+)$')
  local span = (cs - s) * 1000000000 + cn - n
  if span > 0 then return span end
end
