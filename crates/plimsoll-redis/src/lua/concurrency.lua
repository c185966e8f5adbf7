-- At most so much at once, held by leases that run out.
--
-- Arguments: limit, length of a lease, the id of the lease that is asked for.
-- Kept: a sorted set with one member for each lease, `id:cost`, whose score is when it runs out, in microseconds; the
-- member `fence`, whose score is minus the number of the last lease that was granted; and the member `total`, whose score is
-- minus what all leases in the set hold. Below 0, they never look like times.
-- A number is the microsecond of the grant, or the one before and 1: later leases have larger ones, also after the key was
-- gone, unless the clock has stepped back while nothing was held.
-- A lease that has run out is thrown away by whoever sees it first. An id ends with `~` and the length of the lease in
-- microseconds: a lease that lasts longer than that from now on was written before the clock stepped back, and lasts as
-- long as a new one. Expires with the last lease.
-- Leases are exact to a microsecond. Takes logarithmic time, and some for each lease that has run out.

kinds.k = {}

function kinds.k.rule()
  return { limit = number(), lease = number(), id = word() }
end

local function micros_of_lease(rule)
  return roughly(divide_up(rule.lease, 1000))
end

local function cost_of(member)
  return tonumber(string.match(member, ':(%d+)$')) or unreadable()
end

function kinds.k.load(rule, key)
  local state = { key = key, used = -tonumber(redis.call('ZSCORE', key, 'total') or 0), freed = 0 }
  state.late, state.leases, state.taken = {}, {}, 0
  local micros = now.s * 1000000 + math.floor(now.n / 1000)
  state.run_out = redis.call('ZRANGEBYSCORE', key, '(0', string.format('%.0f', micros))
  for _, member in ipairs(state.run_out) do state.freed = state.freed + cost_of(member) end
  state.used = state.used - state.freed
  state.unsaved = state.freed > 0
  return state
end

-- Only then does it matter whether a lease lasts too long. All are looked at if the one that ends first does, and otherwise
-- now and then: one in 64 refusals is often enough for what happens when a clock has stepped back.
function kinds.k.refused(rule, state, cost, span)
  if state.looked then return span end
  state.looked = true
  local micros = now.s * 1000000 + math.floor(now.n / 1000)
  local after = string.format('(%.0f', micros)
  local first = redis.call('ZRANGEBYSCORE', state.key, after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  -- A millisecond more, for lengths that were rounded.
  local longest = micros + micros_of_lease(rule) + 1000
  if micros % 64 ~= 0 and (not first[2] or tonumber(first[2]) <= longest) then return span end
  local latest = string.format('(%.0f', longest)
  local found = redis.call('ZRANGEBYSCORE', state.key, latest, '+inf', 'WITHSCORES')
  for i = 1, #found, 2 do
    local length = tonumber(string.match(found[i], '~(%d+):%d+$')) or micros_of_lease(rule)
    if tonumber(found[i + 1]) > micros + length + 1000 then
      state.late[#state.late + 1] = { member = found[i], ends = micros + length }
      stepped, state.unsaved = true, true
    end
  end
  return span
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
  state.used, state.taken = state.used + cost, state.taken + cost
  state.leases[#state.leases + 1] = rule.id .. ':' .. string.format('%.0f', cost)
  local last = state.fence or -tonumber(redis.call('ZSCORE', state.key, 'fence') or 0)
  state.fence = math.max(last + 1, now.s * 1000000 + math.floor(now.n / 1000))
  local rest = state.fence % 1000000
  state.recorded = { s = (state.fence - rest) / 1000000, n = rest * 1000 }
end

function kinds.k.save(rule, state, key)
  for _, member in ipairs(state.run_out) do redis.call('ZREM', key, member) end
  for _, late in ipairs(state.late) do redis.call('ZADD', key, string.format('%.0f', late.ends), late.member) end
  local change = state.taken - state.freed
  if state.taken > 0 then
    local ends = plus(now, rule.lease)
    local micros = string.format('%.0f', ends.s * 1000000 + math.ceil(ends.n / 1000))
    for _, member in ipairs(state.leases) do redis.call('ZADD', key, micros, member) end
    redis.call('ZADD', key, string.format('%.0f', -state.fence), 'fence')
    local span = tonumber(lifetime(rule.lease))
    if redis.call('PTTL', key) < span then redis.call('PEXPIRE', key, string.format('%.0f', span)) end
  end
  if state.used == 0 then
    redis.call('DEL', key)
  elseif change ~= 0 then
    redis.call('ZINCRBY', key, string.format('%.0f', -change), 'total')
  end
end

-- Only leases give back.
function kinds.k.add(rule, state, amount)
end

-- Gives back the lease of this id, unless it has run out: then it is gone already.
function kinds.k.undo(rule, state, cost)
  local member = rule.id .. ':' .. string.format('%.0f', cost)
  local ends = tonumber(redis.call('ZSCORE', state.key, member) or 0)
  if ends > now.s * 1000000 + math.floor(now.n / 1000) then
    redis.call('ZREM', state.key, member)
    state.used, state.freed = state.used - cost, state.freed + cost
  end
end

function kinds.k.full(rule, state)
  if state.used == 0 then return 0 end
  return false
end
