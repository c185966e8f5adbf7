-- So many in any window, counted exactly: every time is remembered.
--
-- Arguments: limit, length of the window, least gap, 1 if refusals count.
-- Kept: a sorted set with one member for each time. The score is the time in whole microseconds; the member is
-- `nanoseconds:sum:cost`, where the three digits of the nanoseconds put members of one score in order, and sum is all that
-- was recorded up to and with this one. So what counts in a window is the difference of two sums, and the time
-- at which enough has left is found by halving: nothing is ever added up. What is older than the window leaves when
-- something is recorded. Expires a window, or the gap if that is longer, after the newest time.
-- Exact until 2^53 was recorded without a pause, and up to the year 2255. Takes logarithmic time.

kinds.l = {}

function kinds.l.rule()
  local rule = { limit = number(), window = number(), gap = number(), counts_refusals = word() == '1' }
  rule.longest = most(rule.window, rule.gap)
  return rule
end

local function entry_of(member, score)
  local n, sum, cost = string.match(member, '^(%d%d%d):(%d+):(%d+)$')
  if not n then unreadable() end
  local micros = tonumber(score)
  local rest = micros % 1000000
  local at = { s = (micros - rest) / 1000000, n = rest * 1000 + tonumber(n) }
  return { at = at, sum = tonumber(sum), cost = tonumber(cost), member = member }
end

local function entry_at(key, rank)
  local found = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
  if not found[1] then return nil end
  return entry_of(found[1], found[2])
end

local function micros_of(t)
  return t.s * 1000000 + math.floor(t.n / 1000)
end

local function write(key, at, sum, cost)
  local member = string.format('%03d:%.0f:%.0f', at.n % 1000, sum, cost)
  redis.call('ZADD', key, string.format('%.0f', micros_of(at)), member)
end

-- `gone` is how many entries no longer count, `first` the first that does; `sum` is that of the newest entry, `before` that
-- of the last one gone.
function kinds.l.load(rule, key)
  local state = { key = key, gone = 0, size = 0, sum = 0, before = 0 }
  local newest = entry_at(key, -1)
  if not newest then return state end
  state.size, state.last, state.newest = redis.call('ZCARD', key), newest, newest.at
  state.sum = newest.sum
  if not ahead(newest.at, rule.longest) then
    -- The clocks have nothing to do with each other: all of it is taken for something that was used just now.
    local oldest = entry_at(key, 0)
    state.collapsed, state.gone = true, state.size
    state.before = oldest.sum - oldest.cost
    state.newest = now
    return state
  end
  local whole = add(mul(now.s, SECOND), now.n)
  if not less(whole, rule.window) then
    local border = minus(now, rule.window)
    local micros = string.format('%.0f', micros_of(border))
    state.gone = redis.call('ZCOUNT', key, '-inf', '(' .. micros)
    local entry = entry_at(key, state.gone)
    while entry and not less(since(now, entry.at), rule.window) do
      state.gone = state.gone + 1
      state.before = entry.sum
      entry = entry_at(key, state.gone)
    end
    state.first = entry
  else
    state.first = entry_at(key, 0)
  end
  if state.first then state.before = state.first.sum - state.first.cost end
  if state.gone == state.size then state.before = state.sum end
  return state
end

function kinds.l.in_use(rule, state)
  return state.sum - state.before
end

function kinds.l.available(rule, state)
  return math.max(0, rule.limit - kinds.l.in_use(rule, state))
end

local function gap_left(rule, state)
  if not state.newest then return 0 end
  return since(plus(state.newest, rule.gap), now)
end

-- The span after which `cost` fits the window and keeps the gap.
local function ready(rule, state, cost)
  local enough = math.max(0, rule.limit - cost)
  local span = 0
  if kinds.l.in_use(rule, state) > enough then
    -- The first entry with whose leaving no more than `enough` is left. Mostly that is the first.
    local low, high = state.gone, state.size
    if state.first then
      if state.sum - state.first.sum <= enough then high = low else low = low + 1 end
    end
    while low < high do
      local middle = math.floor((low + high) / 2)
      if state.sum - entry_at(state.key, middle).sum <= enough then high = middle else low = middle + 1 end
    end
    local leaves = state.newest
    if low < state.size then
      local entry = low == state.gone and state.first or entry_at(state.key, low)
      leaves = entry.at
    end
    span = since(plus(leaves, rule.window), now)
  end
  return most(span, gap_left(rule, state))
end

function kinds.l.wait(rule, state, cost)
  local gap = gap_left(rule, state)
  if gap == 0 and cost <= kinds.l.available(rule, state) then return nil end
  return ready(rule, state, cost), gap ~= 0 and 'too_soon' or 'exhausted'
end

-- In memory only: `sum` is ahead of what is written by `state.unwritten`.
function kinds.l.take(rule, state, cost)
  if not state.newest or since(now, state.newest) ~= 0 then state.newest = now end
  state.sum = state.sum + cost
  state.unwritten = (state.unwritten or 0) + cost
end

-- A refusal counts as if it had been granted, so it makes the wait longer.
function kinds.l.refused(rule, state, cost, span)
  if not rule.counts_refusals then return span end
  kinds.l.take(rule, state, cost)
  state.unsaved = true
  return most(span, ready(rule, state, cost))
end

function kinds.l.save(rule, state, key)
  if not state.unwritten then return end
  local cost, sum, last = state.unwritten, state.sum, state.last
  if state.collapsed then
    redis.call('DEL', key)
    cost = kinds.l.in_use(rule, state)
    sum, last = cost, nil
  elseif state.gone > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, state.gone - 1)
    if state.gone == state.size then
      sum, last = cost, nil
    end
  end
  if last and since(state.newest, last.at) == 0 then
    redis.call('ZREM', key, last.member)
    cost = cost + last.cost
  end
  write(key, state.newest, sum, cost)
  redis.call('PEXPIRE', key, lifetime(add(since(state.newest, now), rule.longest)))
end

-- The newest first. The newest time itself is kept, with nothing left of it: the gap counts from there.
function kinds.l.add(rule, state, amount)
  if state.gone == state.size then return end
  local left = math.min(amount, kinds.l.in_use(rule, state))
  local last = state.last
  redis.call('ZREMRANGEBYRANK', state.key, -1, -1)
  local part = math.min(left, last.cost)
  left, last.cost = left - part, last.cost - part
  while left > 0 do
    local entry = entry_at(state.key, -1)
    redis.call('ZREMRANGEBYRANK', state.key, -1, -1)
    part = math.min(left, entry.cost)
    left = left - part
    if part < entry.cost then write(state.key, entry.at, entry.sum - part, entry.cost - part) end
  end
  local before = entry_at(state.key, -1)
  write(state.key, last.at, (before and before.sum or 0) + last.cost, last.cost)
  redis.call('PEXPIRE', state.key, lifetime(add(since(last.at, now), rule.longest)))
end

-- From the time at which it was taken on. All later sums change with it, so this takes time in proportion to what came
-- after.
function kinds.l.undo(rule, state, amount, taken)
  if state.collapsed or state.gone == state.size then return end
  local from = string.format('%.0f', micros_of(taken))
  local found = redis.call('ZRANGEBYSCORE', state.key, from, '+inf', 'WITHSCORES')
  local gone = 0
  for i = 1, #found, 2 do
    local entry = entry_of(found[i], found[i + 1])
    if since(taken, entry.at) == 0 then
      local part = math.min(amount - gone, entry.cost)
      gone = gone + part
      redis.call('ZREM', state.key, entry.member)
      if part < entry.cost then write(state.key, entry.at, entry.sum - gone, entry.cost - part) end
    end
  end
  -- Whoever gives back more than there was does not shorten the gap.
  if gone < amount and redis.call('EXISTS', state.key) == 0 then write(state.key, state.newest, 0, 0) end
  redis.call('PEXPIRE', state.key, lifetime(add(since(state.newest, now), rule.longest)))
end

function kinds.l.full(rule, state)
  if not state.newest then return 0 end
  return since(plus(state.newest, rule.window), now)
end
