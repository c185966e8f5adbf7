-- So many in any window, counted exactly: every time is remembered.
--
-- Arguments: limit, length of the window, least gap, 1 if refusals count.
-- Kept: a sorted set with one member for each time. The score is the time in whole microseconds; the member is
-- `nanoseconds:sum:cost`, where the three digits of the nanoseconds put members of one score in order, and sum is all that
-- was recorded up to and with this one. So what counts in a window is the difference of two sums, and the time
-- at which enough has left is found by halving: nothing is ever added up. And for each of the terms by which it is asked,
-- while a fleet is replaced there are two, a member `mlimit/span`, the span that matters to them; if there are several,
-- `nlimit/span`, so that one look tells whether there are. Their scores are below 0: minus the second at which somebody last
-- wrote by them, and 1.
-- What is older than all of them need leaves when something is recorded, and so do the oldest units above the limit, which
-- decide nothing: refusals that count are bounded by the limit. Expires a window, or the gap if that is longer, after the
-- newest time.
-- Exact until 2^53 was recorded without a pause, and up to the year 2255. Takes logarithmic time.

kinds.l = {}

function kinds.l.rule()
  local rule = { limit = number(), window = number(), gap = number(), counts_refusals = word() == '1' }
  rule.longest = most(rule.window, rule.gap)
  rule.terms = text_of(rule.limit) .. '/' .. text_of(rule.longest)
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
  if not found[1] or tonumber(found[2]) < 0 then return nil end
  return entry_of(found[1], found[2])
end

local function micros_of(t)
  return t.s * 1000000 + math.floor(t.n / 1000)
end

local function write(key, at, sum, cost)
  local member = string.format('%03d:%.0f:%.0f', at.n % 1000, sum, cost)
  redis.call('ZADD', key, string.format('%.0f', micros_of(at)), member)
end

-- What others need who ask by other terms: the most units, and the longest span.
local function load_terms(rule, state, newest)
  local found = redis.call('ZRANGEBYSCORE', state.key, '-inf', '(0', 'WITHSCORES')
  state.terms, state.limit, state.longest, state.old_terms = #found / 2, rule.limit, rule.longest, {}
  for i = 1, #found, 2 do
    local limit, longest = string.match(found[i], '^[mn](%w+)/(%w+)$')
    if not limit then unreadable() end
    if limit .. '/' .. longest == rule.terms then
      state.own = found[i]
    else
      limit, longest = number_of(limit), number_of(longest)
      local asked = { s = -tonumber(found[i + 1]) - 1, n = SECOND - 1 }
      -- Who was alone did not write down each time when it was.
      local alone = #found == 2
      if alone then asked = newest end
      if less(since(now, asked), longest) then
        state.limit, state.longest = math.max(state.limit, limit), most(state.longest, longest)
        state.shared = true
        if alone then state.alone = { terms = string.sub(found[i], 2), asked = newest.s } end
      else
        state.old_terms[#state.old_terms + 1] = found[i]
      end
    end
  end
end

-- How many members come before the first entry that is within `span`, those of terms included, and that entry.
local function within(state, span)
  local gone = state.terms
  if not less(add(mul(now.s, SECOND), now.n), span) then
    local micros = string.format('%.0f', micros_of(minus(now, span)))
    gone = redis.call('ZCOUNT', state.key, '-inf', '(' .. micros)
  end
  local entry = entry_at(state.key, gone)
  while entry and not less(since(now, entry.at), span) do
    gone = gone + 1
    entry = entry_at(state.key, gone)
  end
  return gone, entry
end

-- `gone` is how many members no longer count, those of terms included, `first` the first that does; `sum` is that of the
-- newest entry, `before` that of the last one gone.
function kinds.l.load(rule, key)
  local state = { key = key, gone = 0, size = 0, sum = 0, before = 0, terms = 0, old_terms = {} }
  state.limit, state.longest = rule.limit, rule.longest
  local newest = entry_at(key, -1)
  if not newest then return state end
  load_terms(rule, state, newest.at)
  state.size, state.last, state.newest = redis.call('ZCARD', key), newest, newest.at
  state.sum = newest.sum
  if not ahead(newest.at, state.longest) then
    -- The clocks have nothing to do with each other: all of it is taken for something that was used just now.
    local oldest = entry_at(key, state.terms)
    state.collapsed, state.unsaved, state.gone = true, true, state.size
    state.before = oldest.sum - oldest.cost
    state.newest = now
    return state
  end
  state.gone, state.first = within(state, rule.window)
  state.before = state.first and state.first.sum - state.first.cost or state.sum
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

-- The first rank from `low` on, below `high`, after whose entry no more than `enough` was recorded; or `high`.
local function rank_with(state, enough, low, high)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if state.sum - entry_at(state.key, middle).sum <= enough then high = middle else low = middle + 1 end
  end
  return low
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
    low = rank_with(state, enough, low, high)
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
  state.recorded = state.newest
end

-- A refusal counts as if it had been granted, so it makes the wait longer.
function kinds.l.refused(rule, state, cost, span)
  if not rule.counts_refusals or cost == 0 then return span end
  kinds.l.take(rule, state, cost)
  state.unsaved = true
  return most(span, ready(rule, state, cost))
end

-- Removes what nobody needs: what has left, and the oldest units above the largest limit. Says whether an entry is left.
local function forget_past(rule, state)
  local key, kept = state.key, state.gone
  if less(rule.window, state.longest) then kept = within(state, state.longest) end
  local first = kept < state.size and entry_at(key, kept)
  if first and state.sum - first.sum >= state.limit then
    kept = rank_with(state, state.limit - 1, kept, state.size)
    first = kept < state.size and entry_at(key, kept)
  end
  if kept > state.terms then redis.call('ZREMRANGEBYRANK', key, state.terms, kept - 1) end
  -- Of the first one only as much is left as the limit has room for beside the others.
  local left = first and first.sum + state.limit - state.sum
  if left and left < first.cost then
    redis.call('ZREM', key, first.member)
    write(key, first.at, first.sum, left)
    if state.last.member == first.member then state.last = entry_at(key, -1) end
  end
  return kept < state.size
end

local function save_terms(rule, state)
  local own = (state.shared and 'n' or 'm') .. rule.terms
  for _, terms in ipairs(state.old_terms) do redis.call('ZREM', state.key, terms) end
  if state.own and state.own ~= own then redis.call('ZREM', state.key, state.own) end
  -- Who is alone need not say when it last was.
  if state.shared or state.own ~= own or state.collapsed then
    redis.call('ZADD', state.key, string.format('%.0f', -now.s - 1), own)
  end
  if state.alone then
    redis.call('ZREM', state.key, 'm' .. state.alone.terms, 'n' .. state.alone.terms)
    redis.call('ZADD', state.key, string.format('%.0f', -state.alone.asked - 1), 'n' .. state.alone.terms)
  end
end

function kinds.l.save(rule, state, key)
  if not state.unwritten and not state.collapsed then return end
  local cost, sum, last = state.unwritten or 0, state.sum, state.last
  if state.collapsed then
    redis.call('DEL', key)
    cost = kinds.l.in_use(rule, state)
    sum, last = cost, nil
  elseif forget_past(rule, state) then
    last = state.last
  else
    cost = math.min(cost, state.limit)
    sum, last = cost, nil
  end
  if last and since(state.newest, last.at) == 0 then
    redis.call('ZREM', key, last.member)
    cost = cost + last.cost
  end
  write(key, state.newest, sum, cost)
  save_terms(rule, state)
  redis.call('PEXPIRE', key, lifetime(add(since(state.newest, now), state.longest)))
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
  redis.call('PEXPIRE', state.key, lifetime(add(since(last.at, now), state.longest)))
end

-- Only what was recorded at that very moment: if that has left, all else is another's. All later sums change with it, so
-- this takes time in proportion to what came after.
function kinds.l.undo(rule, state, amount, taken)
  if state.collapsed or state.gone == state.size or not less(since(now, taken), rule.window) then return end
  local from = string.format('%.0f', micros_of(taken))
  local found = redis.call('ZRANGEBYSCORE', state.key, from, '+inf', 'WITHSCORES')
  local gone = 0
  for i = 1, #found, 2 do
    local entry = entry_of(found[i], found[i + 1])
    local part = 0
    if entry.at.s == taken.s and entry.at.n == taken.n then
      part = math.min(amount, entry.cost)
      gone = part
    end
    if gone > 0 then
      redis.call('ZREM', state.key, entry.member)
      if part < entry.cost then write(state.key, entry.at, entry.sum - gone, entry.cost - part) end
    end
  end
  local last = entry_at(state.key, -1)
  -- The gap that it began is over with it.
  if last and gone > 0 and since(state.newest, last.at) ~= 0 then
    while last and last.cost == 0 do
      redis.call('ZREM', state.key, last.member)
      last = entry_at(state.key, -1)
    end
  end
  if last then
    redis.call('PEXPIRE', state.key, lifetime(add(since(state.newest, now), state.longest)))
  else
    redis.call('DEL', state.key)
  end
end

function kinds.l.full(rule, state)
  if kinds.l.in_use(rule, state) == 0 then return 0 end
  if state.unwritten or state.collapsed then return since(plus(state.newest, rule.window), now) end
  -- The newest may have nothing left.
  local last, rank = state.last, -1
  while last.cost == 0 do
    rank = rank - 1
    last = entry_at(state.key, rank)
  end
  return since(plus(last.at, rule.window), now)
end
