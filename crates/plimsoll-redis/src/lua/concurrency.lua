-- At most so much at once, held by leases that run out.
--
-- Arguments: limit, length of a lease, the id of the lease that is asked for.
-- Kept: a sorted set with one member for each lease, `id:cost`, whose score is when it runs out, in microseconds; and
-- the member `total`, whose score is what all leases in the set hold, below 0 so that it never looks like a time.
-- A lease that has run out is thrown away by whoever sees it first. Expires with the last lease.
-- Leases are exact to a microsecond. Takes logarithmic time, and some for each lease that has run out.

kinds.k = {}

function kinds.k.rule()
  return { limit = number(), lease = number(), id = word() }
end

function kinds.k.load(rule, key)
  local state = { key = key, used = -tonumber(redis.call('ZSCORE', key, 'total') or 0) }
  local micros = string.format('%.0f', now.s * 1000000 + math.floor(now.n / 1000))
  state.run_out, state.freed = redis.call('ZRANGEBYSCORE', key, '(0', micros), 0
  for _, member in ipairs(state.run_out) do
    state.freed = state.freed + (tonumber(string.match(member, ':(%d+)$')) or unreadable())
  end
  state.used = state.used - state.freed
  state.unsaved = state.freed > 0
  return state
end

function kinds.k.available(rule, state)
  return math.max(0, rule.limit - state.used)
end

function kinds.k.in_use(rule, state)
  return state.used
end

-- When it would fit nobody knows: there is no span.
function kinds.k.wait(rule, state, cost)
  if state.used + cost <= rule.limit then return nil end
  return false
end

function kinds.k.take(rule, state, cost)
  state.used = state.used + cost
  state.taken = cost
end

function kinds.k.save(rule, state, key)
  for _, member in ipairs(state.run_out) do redis.call('ZREM', key, member) end
  local change = (state.taken or 0) - state.freed
  if state.taken then
    local ends = plus(now, rule.lease)
    local micros = string.format('%.0f', ends.s * 1000000 + math.ceil(ends.n / 1000))
    redis.call('ZADD', key, micros, rule.id .. ':' .. string.format('%.0f', state.taken))
    local span = tonumber(lifetime(rule.lease))
    if redis.call('PTTL', key) < span then redis.call('PEXPIRE', key, string.format('%.0f', span)) end
  end
  if state.used == 0 then
    redis.call('DEL', key)
  else
    redis.call('ZINCRBY', key, string.format('%.0f', -change), 'total')
  end
end

-- Only leases give back.
function kinds.k.add(rule, state, amount)
end

function kinds.k.full(rule, state)
  if state.used == 0 then return 0 end
  return false
end
