
-- Answers `count` demands in a row that are granted at one cost: what is left after the first, and when there is more; of the
-- next, less by the cost. All of it is there after `full`; where `pace` is given, after the first at `owed` / `pace`, rounded up,
-- and of every next one at `rise` more. A sliding counter without a window before answers 5, how many, what is left after the
-- first, a span, `full`, what is used after the first, and the window: there is more after the span and the window divided by
-- what is used. Leases answer 6 instead of 3, and each is granted a microsecond after the one before. Where `pace` is 0, nobody
-- knows when all of it is there.
local function grant(count, left, more, full, owed, rise, pace)
  if count == 1 then
    out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 1, left, more, full, stamp
    size = size + 5
  else
    out[size + 1], out[size + 2], out[size + 3], out[size + 4] = 3, count, left, more
    out[size + 5], out[size + 6], out[size + 7], out[size + 8] = owed or full, rise or 0, pace or 1, stamp
    size = size + 8
  end
  stamp = 0
end

-- Answers as many demands in a row that are refused, all for the same reason.
local function refuse(count, ready, left, full)
  if count > 1 then
    out[size + 1], out[size + 2] = 4, count
    size = size + 2
  end
  out[size + 1], out[size + 2], out[size + 3], out[size + 4], out[size + 5] = 0, 'exhausted', ready, left, full
  size = size + 5
end

-- How many of `count` demands of one cost fit into what is free.
local function fitting(count, cost, free)
  if cost * count <= free then return count end
  return free > 0 and (free - free % cost) / cost or 0
end

-- Keeps a text as long as it says anything, rounded up to milliseconds.
local millis, millis_text
local function write(key, text, span)
  local lasts = hand and 3600000 or (span + -span % 1000000) / 1000000 + 1
  if lasts ~= millis then millis, millis_text = lasts, string.format('%d', lasts) end
  call('SET', key, text, 'PX', millis_text)
end

