-- Moments, and what the kinds of limits have in common.
--
-- A moment is { s = whole seconds, n = nanoseconds }, because nanoseconds since 1970 do not fit a double. A
-- span is a whole number of nanoseconds. `ARGV[2]` is empty, and the time is that of the server; or it is a
-- moment, for tests on a clock moved by hand. On such a clock spans have nothing to do with the server's, so keys
-- expire after an hour of the server's time.

local SECOND = 1000000000

local kinds = {}
local place = 3

-- The next argument, as it is.
local function word()
  place = place + 1
  return ARGV[place]
end

local function number()
  return number_of(word())
end

local function moment_of(text)
  local s, n = string.match(text or '', '^(%d+)%.(%d+)$')
  if not s then unreadable() end
  return { s = tonumber(s), n = tonumber(n) }
end

local function text_of_moment(t)
  return string.format('%.0f.%.0f', t.s, t.n)
end

local by_hand = ARGV[2] ~= ''
local now
if by_hand then
  now = moment_of(ARGV[2])
else
  local time = redis.call('TIME')
  now = { s = tonumber(time[1]), n = tonumber(time[2]) * 1000 }
end

-- The span from `earlier` to `later`, 0 if it is not earlier.
local function since(later, earlier)
  local s, n = later.s - earlier.s, later.n - earlier.n
  if n < 0 then s, n = s - 1, n + SECOND end
  if s < 0 then return 0 end
  if s < 9000000 then return s * SECOND + n end
  return add(mul(s, SECOND), n)
end

local function plus(t, span)
  local s, n = divide(add(span, t.n), SECOND)
  return { s = t.s + s, n = n }
end

-- Never before the origin: only called with spans that have passed since.
local function minus(t, span)
  local s, n = divide(span, SECOND)
  if n > t.n then return { s = t.s - s - 1, n = t.n - n + SECOND } end
  return { s = t.s - s, n = t.n - n }
end

-- Where the stretch that `t`, or else now, lies in began, and how much of it has passed. Stretches are counted from
-- `origin`. Whole seconds and parts of a second are common, and need no long division.
local function stretch(origin, length, t)
  t = t or now
  local s, n = t.s - origin.s, t.n - origin.n
  if n < 0 then s, n = s - 1, n + SECOND end
  if s < 0 then return origin, 0 end
  local passed
  if type(length) == 'number' and length % SECOND == 0 then
    passed = add(mul(s % (length / SECOND), SECOND), n)
  elseif type(length) == 'number' and SECOND % length == 0 then
    passed = n % length
  else
    local _
    _, passed = divide(add(mul(s, SECOND), n), length)
  end
  return minus(t, passed), passed
end

-- Whether something was written by a clock that is far ahead of this one.
local stepped = false

-- How far ahead of now a moment lies that was now when it was written: the clock of the server has stepped back, or
-- another server took over. Up to `longest` time stands still until it is reached. Beyond, the clocks have nothing
-- to do with each other: nil, and the state starts anew from now with what it says was used. That has to be written down
-- even by a refusal, or it would start anew with every call until the clock has caught up.
local function ahead(t, longest)
  local span = since(t, now)
  if less(longest, span) then
    stepped = true
    return nil
  end
  return span
end

-- The time to live of a key that says nothing new after `span`, in milliseconds. Rounded up, and one more: the
-- server's own milliseconds are rounded down. Servers cannot count beyond some hundred million years.
local function lifetime(span)
  if by_hand then return '3600000' end
  return string.format('%.0f', math.min(roughly(divide_up(span, 1000000)) + 1, 2 ^ 52))
end

-- Keeps a text for `span`; nothing is kept for no time at all.
local function keep(key, span, text)
  if span == 0 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, text, 'PX', lifetime(span))
  end
end
